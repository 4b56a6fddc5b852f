"""The address of a queue manager.

Examples: "127.0.0.1:7470", "[::1]:7470", "tls:nyc.example.org:7471", "unix:/run/qmgrd.sock".

The form of a URL is accepted, too. A host may follow a user, but never a password:
"tls://billing@nyc.example.org:7471" is "tls:billing@nyc.example.org:7471".

A queue manager with standbys has several addresses, of which one is active. They are written as a
list with commas: "tls:billing@nyc1:7471,tls:nyc2:7471". The first address names the user.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from qmgr_client.errors import AddressInvalid

_TCP = re.compile(
    r"(?:(?P<scheme>tls|tcp):(?://)?)?"
    r"(?:(?P<user>[^\[\]:/@\s]+)@)?"
    r"(?:\[(?P<ipv6>[^\[\]@]+)\]|(?P<name>[^\[\]:/@\s]+))"
    r":(?P<port>[0-9]{1,5})/?"
)
_UNIX, _TLS = "unix:", "tls:"
# A comma before the next address. Other commas belong to the path of a unix socket.
_COMMA = re.compile(r"\s*,\s*(?=(?:unix|tls|tcp):|[^/,]*:[0-9])")
ADDRESSES_MAX = 16  # addresses of one queue manager
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


def split(text: str) -> list[str]:
    """Returns the parts of a list with commas, unchecked."""
    return _COMMA.split(text)


def joined(addresses: Iterable[Address]) -> str:
    """Returns the list with commas that :func:`parse_list` reads."""
    return ",".join(map(str, addresses))


def parse_list(text: str) -> tuple[Address, ...]:
    """Returns the addresses in *text*, all of one queue manager.

    Raises:
        AddressInvalid: An address is not valid, the list has too many addresses or one of them
            twice, only some of them use TLS, or they do not agree on the user.
    """
    parts = split(text) if isinstance(text, str) else [text]
    if len(parts) == 1:
        return (parse(text),)
    if len(parts) > ADDRESSES_MAX:
        raise AddressInvalid(
            f"{parts[0]},...", f"{len(parts)} addresses exceed the limit of {ADDRESSES_MAX}"
        )
    found: list[Address] = []
    for part in parts:
        try:
            address = parse(part)
        except AddressInvalid:
            if has_password(text):  # The password may contain a comma.
                raise AddressInvalid("...", NO_PASSWORD) from None
            raise
        where, first = str(address._replace(user="")), found[0] if found else address
        if address.user not in ("", first.user):
            # The text is not shown: an @ may also follow a password that contains a comma.
            why = "it names another user than the first address: write one user, in the first"
            raise AddressInvalid(f"...@{where.removeprefix(_TLS)}", why)
        if address.is_tls != first.is_tls:
            why = "some addresses use TLS and others do not: write tls: before each, or before none"
            raise AddressInvalid(where, why)
        if any(address._replace(user=one.user) == one for one in found):
            raise AddressInvalid(where, "it occurs twice in the list: remove one")
        found.append(address)
    return tuple(found)


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
