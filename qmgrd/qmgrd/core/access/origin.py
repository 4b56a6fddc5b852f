"""The other end of a connection, before its login."""

from ipaddress import IPv6Address
from typing import NamedTuple

_NETWORK_BITS = 64  # bits of an IPv6 address that its host cannot choose


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


def network_of(address: str) -> str:
    """Returns *address*, or the /64 network of an IPv6 address, from which its host can choose.

    A mapped IPv4 address is returned as IPv4. Another text than an address is returned as it is.
    """
    if ":" not in address:
        return address
    try:
        found = IPv6Address(address)
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found.is_loopback:
        return address
    host_bits = 128 - _NETWORK_BITS
    return f"{IPv6Address(int(found) >> host_bits << host_bits)}/{_NETWORK_BITS}"
