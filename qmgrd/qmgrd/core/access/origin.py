"""The other end of a connection, before its login."""

from typing import NamedTuple


class Tls(NamedTuple):
    """The facts of an encrypted connection. The shell has verified the client's certificate."""

    server_hash: bytes = b""  # tls-server-end-point of our certificate (RFC 5929), if known
    subject: str = ""  # subject of the client's certificate as in RFC 4514, or "" without one
    # Alternative names of the certificate, as "dns:HOST", "uri:URI", "email:ADDRESS", "ip:ADDRESS".
    names: tuple[str, ...] = ()
    fingerprint: str = ""  # SHA-256 of the client's certificate in hex, or "" without one

    @property
    def has_certificate(self) -> bool:
        """Whether the client has a verified certificate."""
        return bool(self.fingerprint)


class Origin(NamedTuple):
    """The other end of a connection, as the operating system and TLS report it."""

    address: str  # host without the port, or "unix"
    is_trusted: bool = True  # whether anybody may use this address while no user exists
    is_owner: bool = False  # whether a process of the daemon's user or root opened a unix socket
    tls: Tls | None = None  # None if the connection is not encrypted
