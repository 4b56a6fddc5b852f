"""The address of a queue manager.

Examples: "127.0.0.1:7470", "[::1]:7470", "tls:nyc.example.org:7471", "unix:/run/qmgrd.sock".

The form of a URL is accepted, too. A host may follow a user, but never a password:
"tls://billing@nyc.example.org:7471" is "tls:billing@nyc.example.org:7471".
"""

import re
from typing import NamedTuple

from qmgr_client.errors import AddressInvalid

_TCP = re.compile(
    r"(?:(?P<scheme>tls|tcp):(?://)?)?"
    r"(?:(?P<user>[^\[\]:/@\s]+)@)?"
    r"(?:\[(?P<ipv6>[^\[\]@]+)\]|(?P<name>[^\[\]:/@\s]+))"
    r":(?P<port>[0-9]{1,5})/?"
)
_UNIX, _TLS = "unix:", "tls:"
# A user and a password, after a scheme that does not count as a user.
_PASSWORD = re.compile(r"(?>(?:(?:tls|tcp):|[a-z]+:(?=//))?(?://)?)[^:/@]*:.*@")
NO_PASSWORD = (
    "an address must not contain a password, because logs and lists of processes show addresses: "
    "use a password file or QMGR_PASSWORD"
)


class Address(NamedTuple):
    """A host and a port, with or without TLS, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""
    is_tls: bool = False
    user: str = ""  # the user to log in as, or ""

    def __str__(self) -> str:
        if self.path:
            return f"{_UNIX}{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        return f"{_TLS if self.is_tls else ''}{user}{host}:{self.port}"


def has_password(text: str) -> bool:
    """Returns whether an address has a password after its user. Such an address is not valid."""
    return _PASSWORD.match(text) is not None


def parse(text: str) -> Address:
    """Returns the address in *text*.

    Raises:
        AddressInvalid: *text* is not a valid address.
    """
    if not isinstance(text, str):
        raise AddressInvalid(repr(text), "an address must be a str")
    if text.startswith(_UNIX) and len(text) > len(_UNIX):
        return Address(path=text[len(_UNIX) :])
    if has_password(text):
        raise AddressInvalid(f"...{text[text.rindex('@') :]}", NO_PASSWORD)
    match = _TCP.fullmatch(text)
    if match is None:
        raise AddressInvalid(text, f'"{text}" is not host:port, tls:host:port or unix:/path')
    if not 1 <= (port := int(match["port"])) <= 65_535:
        raise AddressInvalid(text, f'port {port} of "{text}" is out of range (1 to 65535)')
    host = match["ipv6"] or match["name"]
    return Address(host, port, is_tls=match["scheme"] == "tls", user=match["user"] or "")
