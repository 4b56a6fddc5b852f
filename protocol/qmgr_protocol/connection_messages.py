"""What the two ends of a connection say of the connection itself."""
# ruff: noqa: RUF012 - these defaults are the messages' own: nobody changes what a message holds

from typing import NamedTuple

__all__ = ["Goaway", "Hello", "Ping", "Pong", "Welcome"]


class Hello(NamedTuple):
    """Opens a connection: first message of whoever dialled.

    session: of the last welcome, to resume that session; empty for a new one.
    """

    magic: str
    version_min: int
    version_max: int
    role: str
    name: str
    features: list[str] = []
    store_id: bytes = b""
    boot: int = 0
    software: str = ""
    frame_max_bytes: int = 8 * 1024 * 1024
    auth_method: str = "none"
    auth_data: bytes = b""
    session: bytes = b""


class Welcome(NamedTuple):
    """Answers a hello: what this connection may do, and who answers.

    session: a secret of the client, by which its next connection resumes its session.
    """

    version: int
    name: str
    store_id: bytes
    boot: int
    features: list[str] = []
    software: str = ""
    frame_max_bytes: int = 8 * 1024 * 1024
    message_max_bytes: int = 4 * 1024 * 1024
    put_window_messages: int = 4096
    put_window_bytes: int = 16 * 1024 * 1024
    request_window: int = 1024
    heartbeat_ms: int = 10_000
    liveness_ms: int = 30_000
    session: bytes = b""


class Goaway(NamedTuple):
    """The sender closes after this, and says why."""

    code: int
    text: str = ""
    retry_after_ms: int = 0


class Ping(NamedTuple):
    """Asks for a pong with the same number."""

    number: int = 0


class Pong(NamedTuple):
    """Answers a ping."""

    number: int = 0
