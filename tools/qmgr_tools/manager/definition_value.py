"""Checks the values in a file of definitions before any request to the daemon.

The protocol defines the ranges of the attributes.
"""

import re
from collections.abc import Callable
from typing import Any

from qmgr_config.units import bytes_text, ms_text
from qmgr_protocol import name as names
from qmgr_protocol.errors import RequestError
from qmgr_protocol.limits import (
    ADDRESSES_MAX,
    ANY_ROUTE,
    CONNECTIONS_MAX,
    PATTERN_MAX,
    QUEUE_ATTRIBUTES,
    ROUTES_MAX,
    Attribute,
    is_link_address,
)
from qmgr_tools.queue import system

PATTERN = re.compile(rf"[A-Za-z0-9._*-]{{1,{PATTERN_MAX}}}")
_TEXTS: dict[str, Callable[[Any], str]] = {"bytes": bytes_text, "ms": ms_text}


def attribute_fault(owner: str, name: str, value: Any) -> str:
    """Returns the reason why *value* is invalid for attribute *name* of queue *owner*, or ""."""
    known = QUEUE_ATTRIBUTES[name]
    if known.quantity == "flag":
        return flag_fault(value)
    if known.is_number:
        return _number_fault(known, value)
    if known.quantity == "choice":
        is_one = type(value) is str and value in known.choices
        return "" if is_one else f"{_shown(value)} is not one of {', '.join(known.choices)}"
    if value in (system.AUDIT, system.EVENTS, system.PUBLICATIONS):
        return f"{value} is reserved"
    return "" if value == "" else queue_fault(owner, value)


def queue_fault(owner: str, value: Any) -> str:
    """Returns the reason why *value* cannot be the target queue of *owner*, or ""."""
    if type(value) is not str:
        return f"{_shown(value)} is not a valid queue name"
    try:
        queue, manager = names.split(value)
    except RequestError as error:
        return error.text
    if not queue:
        return f"{value} is the transmission queue of a link; use QUEUE@{manager}"
    return "the target is the queue itself" if value == owner else ""


def flag_fault(value: Any) -> str:
    """Returns an error if *value* is not a boolean, or ""."""
    return "" if type(value) is bool else f"{_shown(value)} must be true or false"


def pattern_fault(pattern: str) -> str:
    """Returns an error if *pattern* is not a valid pattern of a template, or ""."""
    if PATTERN.fullmatch(pattern):
        return ""
    return f"{_shown(pattern)} is invalid: use 1 to {PATTERN_MAX} of A-Z a-z 0-9 . _ - *"


def reserved_fault(name: str) -> str:
    """Returns an error if *name* is reserved, or ""."""
    if name.startswith(system.PREFIX) and name not in system.QUEUES:
        return f"names that start with {system.PREFIX} are reserved"
    return ""


def link_fault(name: str, value: Any) -> str:
    """Returns the reason why *value* is invalid for the attribute *name* of a link, or ""."""
    if name == "addresses":
        return _addresses_fault(value)
    if name == "connections":
        is_valid = type(value) is int and 1 <= value <= CONNECTIONS_MAX
        return "" if is_valid else f"{_shown(value)} is not an integer from 1 to {CONNECTIONS_MAX}"
    return _routes_fault(value) if name == "routes" else flag_fault(value)


def _addresses_fault(value: Any) -> str:
    if type(value) is not list or len(value) > ADDRESSES_MAX:
        return f"use a list of at most {ADDRESSES_MAX} addresses, or [] if the peer connects"
    wrong = next((address for address in value if not is_link_address(address)), None)
    return "" if wrong is None else f"{_shown(wrong)} is not HOST:PORT, tls:HOST:PORT or unix:/PATH"


def _routes_fault(value: Any) -> str:
    if type(value) is not list or len(value) > ROUTES_MAX:
        return (
            f"use a list of at most {ROUTES_MAX} queue managers, or [{ANY_ROUTE!r}] for all others"
        )
    for manager in value:
        try:
            if manager != ANY_ROUTE:
                names.check(str(manager))
        except RequestError as error:
            return error.text
    return ""


def _number_fault(known: Attribute, value: Any) -> str:
    text = _TEXTS.get(known.quantity, str)
    span = f"{text(known.low)} to {text(known.high)}"
    is_factor = known.quantity == "factor"
    if type(value) is not int and not (is_factor and type(value) is float):
        return f"{_shown(value)} is not {'a number' if is_factor else 'an integer'} ({span})"
    if known.low <= value <= known.high:
        return ""
    return f"{text(value)} is too {'small' if value < known.low else 'large'} ({span})"


def _shown(value: Any) -> str:
    return repr(value)[:80]
