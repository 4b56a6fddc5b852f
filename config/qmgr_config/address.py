"""The address of a TCP listener: "127.0.0.1:7470", "[::1]:7470", "broker.example:7470"."""

import ipaddress
import re
from typing import NamedTuple

_ADDRESS = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-fA-F:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))"
    r":(?P<port>[0-9]{1,5})"
)


class Address(NamedTuple):
    """A host without IPv6 brackets, and a port. With port 0, the system chooses a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address.

        Host names are not resolved. Among names, only localhost counts as a loopback address.
        """
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """Returns the address in *text*.

    Raises:
        ValueError: *text* is not a valid address.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not host:port')
    if (port := int(match["port"])) > 65_535:
        raise ValueError(f'"{text}" has the port {port}; the maximum is 65535')
    if match["ipv6"] is not None:
        return Address(str(ipaddress.IPv6Address(match["ipv6"])), port)
    return Address(match["name"], port)
