"""The address of a queue manager.

Examples: "127.0.0.1:7470", "[::1]:7470", "tls:nyc.example.org:7471", "unix:/run/qmgrd.sock".
"""

import re
from typing import NamedTuple

from qmgr_client.errors import AddressInvalid

_TCP = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^\[\]:/\s]+)):(?P<port>[0-9]{1,5})")
_UNIX, _TLS = "unix:", "tls:"


class Address(NamedTuple):
    """A host and a port, with or without TLS, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""
    is_tls: bool = False

    def __str__(self) -> str:
        if self.path:
            return f"{_UNIX}{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_TLS if self.is_tls else ''}{host}:{self.port}"


def parse(text: str) -> Address:
    """Returns the address in *text*.

    Raises:
        AddressInvalid: *text* is not a valid address.
    """
    if not isinstance(text, str):
        raise AddressInvalid(repr(text), "an address must be a str")
    if text.startswith(_UNIX) and len(text) > len(_UNIX):
        return Address(path=text[len(_UNIX) :])
    is_tls = text.startswith(_TLS)
    match = _TCP.fullmatch(text.removeprefix(_TLS))
    if match is None:
        raise AddressInvalid(text, f'"{text}" is not host:port, tls:host:port or unix:/path')
    if not 1 <= (port := int(match["port"])) <= 65_535:
        raise AddressInvalid(text, f'port {port} of "{text}" is out of range (1 to 65535)')
    return Address(match["ipv6"] or match["name"], port, is_tls=is_tls)
