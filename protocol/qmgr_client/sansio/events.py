"""The events that the core reports to its shell. A ticket identifies the shell's request."""

from typing import Any, NamedTuple, TypeAlias

from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import PutResult
from qmgr_protocol.errors import RequestError
from qmgr_protocol.messages import Welcome


class Ready(NamedTuple):
    """The queue manager has welcomed this connection."""

    welcome: Welcome


class PutDone(NamedTuple):
    """The result of a put. Each put has exactly one result."""

    ticket: int
    result: PutResult | RequestError


class SettleDone(NamedTuple):
    """The result of a settle or renewal. Each of them has exactly one result."""

    ticket: int
    error: RequestError | None


class RequestDone(NamedTuple):
    """The value of a request: a list of messages for a get, otherwise the value in PROTOCOL.md."""

    ticket: int
    value: Any


class RequestFailed(NamedTuple):
    """The refusal of a request."""

    ticket: int
    error: RequestError


class Delivered(NamedTuple):
    """A consumer has new messages."""

    ticket: int


class ConsumerEnded(NamedTuple):
    """A consumer has ended. *error* has the reason, or is None if it was cancelled."""

    ticket: int
    error: RequestError | None


class ProducerLost(NamedTuple):
    """The queue manager cannot continue the producer. Puts wait for a new producer id.

    Unanswered puts have failed with an unknown outcome. The shell sets the new producer id.
    """

    error: RequestError


class Disconnected(NamedTuple):
    """The connection has ended. Close it, wait for *retry_after_ms*, and connect again."""

    code: int
    text: str
    retry_after_ms: int


class Failed(NamedTuple):
    """The client has ended. All open requests have failed with *error*. Close the connection."""

    error: ConnectionEnded


Event: TypeAlias = (
    Ready
    | PutDone
    | SettleDone
    | RequestDone
    | RequestFailed
    | Delivered
    | ConsumerEnded
    | ProducerLost
    | Disconnected
    | Failed
)
Events: TypeAlias = list[Event]
