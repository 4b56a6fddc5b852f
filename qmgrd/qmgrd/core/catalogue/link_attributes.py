"""The attributes of a link (addresses of the peer, connections, order, routes) and their checks."""

from collections.abc import Callable
from typing import Any, TypeAlias

from qmgr_protocol import name as names
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import (
    ADDRESSES_MAX,
    ANY_ROUTE,
    CONNECTIONS_MAX,
    ROUTES_MAX,
    is_link_address,
)
from qmgrd.core.catalogue.attributes import unknown_attribute_error

# The default of each attribute except the addresses.
DEFAULTS: dict[str, Any] = {
    "connections": 1,
    "ordered": False,
    "fetch": False,
    "routes": [],
    "transit": False,
}
ALTERABLE = ("addresses", *DEFAULTS)
_FORMS = "host:port, tls:host:port or unix:/path"

Check: TypeAlias = Callable[[Any], str]


def created(link: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the stored attributes of a new link.

    Raises:
        RequestError: NAME_INVALID or VALUE_INVALID.
    """
    names.check(link)
    return {"stopped": False, "addresses": None} | altered(
        link, {"addresses": None} | given, (*ALTERABLE, "stopped")
    )


def altered(link: str, given: dict[str, Any], known: tuple[str, ...] = ALTERABLE) -> dict[str, Any]:
    """Returns the *given* attributes of a link after checking them.

    Raises:
        RequestError: VALUE_INVALID if a value is not valid or an attribute is not in *known*.
    """
    for attribute, value in given.items():
        if attribute not in known:
            raise unknown_attribute_error("links", link, attribute, list(known))
        why = _CHECKS[attribute](value)
        if why:
            raise RequestError(ErrorCode.VALUE_INVALID, f"links.{link}.{attribute}: {why}")
    return dict(given)


def _addresses(value: Any) -> str:
    if type(value) is not list or len(value) > ADDRESSES_MAX:
        return f"give up to {ADDRESSES_MAX} of {_FORMS}, or none if the peer dials"
    wrong = [address for address in value if not is_link_address(address)]
    return f"{str(wrong[0])[:80]!r} is not {_FORMS}" if wrong else ""


def _connections(value: Any) -> str:
    if type(value) is int and 1 <= value <= CONNECTIONS_MAX:
        return ""
    return f"{str(value)[:80]!r} is not a number from 1 to {CONNECTIONS_MAX}"


def _routes(value: Any) -> str:
    if type(value) is not list or len(value) > ROUTES_MAX:
        return f"give at most {ROUTES_MAX} names of queue managers, or {ANY_ROUTE!r} for all others"
    for manager in value:
        try:
            if manager != ANY_ROUTE:
                names.check(str(manager))
        except RequestError as error:
            return error.text
    return ""


def _flag(value: Any) -> str:
    return "" if type(value) is bool else f"{str(value)[:80]} is neither true nor false"


_CHECKS: dict[str, Check] = {
    "addresses": _addresses,
    "connections": _connections,
    "ordered": _flag,
    "fetch": _flag,
    "routes": _routes,
    "transit": _flag,
    "stopped": _flag,
}
