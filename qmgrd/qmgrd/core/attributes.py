"""The attributes that people may give a queue or a link: their types, ranges and defaults."""

from difflib import get_close_matches
from typing import Any

from qmgr_config.model import Config
from qmgr_protocol import name as names
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import LEASE_MAX_MS
from qmgrd.core.queue import Bounds

ADDRESSES_MAX = 16
_QUEUE = {
    "depth_max": (1, 2**40),  # messages
    "bytes_max": (1, 2**50),  # bytes of records
    "lease_ms": (100, LEASE_MAX_MS),
}


def queue_attributes(queue: str, given: dict[str, Any], remote: bool) -> dict[str, Any]:
    """Return *given* once each attribute is known and in range.

    Raises:
        RequestError: VALUE_INVALID, with the path of the attribute.
    """
    known = {} if remote else _QUEUE
    for attribute, value in given.items():
        if attribute not in known:
            raise _unknown("queues", queue, attribute, list(known))
        low, high = known[attribute]
        if type(value) is not int or not low <= value <= high:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"queues.{queue}.{attribute}: {value!r} is not an integer from {low} to {high}",
            )
    return dict(given)


def bounds(config: Config, attributes: dict[str, Any]) -> Bounds:
    """Return what a queue with these attributes is held to."""
    defaults = config.queue_defaults
    return Bounds(
        depth_max=attributes.get("depth_max", defaults.depth_max),
        bytes_max=attributes.get("bytes_max", defaults.bytes_max),
        lease_ms=attributes.get("lease_ms", defaults.lease_ms),
        leases_max=defaults.leases_max,
    )


def link_attributes(link: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the stored attributes of a link.

    Raises:
        RequestError: NAME_INVALID or VALUE_INVALID.
    """
    names.check(link)
    for attribute in given:
        if attribute not in ("addresses", "stopped"):
            raise _unknown("links", link, attribute, ["addresses", "stopped"])
    addresses = given.get("addresses")
    stopped = given.get("stopped", False)
    if type(stopped) is not bool:
        raise RequestError(ErrorCode.VALUE_INVALID, f"links.{link}.stopped: {stopped!r} is no flag")
    if type(addresses) is not list or not 1 <= len(addresses) <= ADDRESSES_MAX:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"links.{link}.addresses: give 1 to {ADDRESSES_MAX} of host:port or unix:/path",
        )
    for address in addresses:
        _check_address(link, address)
    return {"addresses": list(addresses), "stopped": stopped}


def _check_address(link: str, address: Any) -> None:
    if type(address) is str and len(address) <= 300:
        if address.startswith("unix:/"):
            return
        host, _, port = address.rpartition(":")
        if host and port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535:
            return
    raise RequestError(
        ErrorCode.VALUE_INVALID,
        f"links.{link}.addresses: {str(address)[:80]!r} is not host:port or unix:/path",
    )


def _unknown(noun: str, name: str, attribute: str, known: list[str]) -> RequestError:
    near = get_close_matches(attribute, known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; known are: {', '.join(known) or 'none'}"
    return RequestError(
        ErrorCode.VALUE_INVALID, f"{noun}.{name[:80]}.{attribute[:80]}: not known{hint}"
    )
