"""The fields of requests that decide on the rights that the requests need."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import EACH, Kind, Need


class FieldUse(Enum):
    """How a field of a request decides on the rights that the request needs."""

    REQUIRED = "required"  # names an object; with several of them, one is enough
    OPTIONAL = "optional"  # names an object if it is given
    FLAG = "flag"  # is true or false


def spelled(operation: str) -> str:
    """Returns the name of the request that differs from *operation* at most in case.

    Returns *operation* itself for an unknown request.
    """
    names = (found.kind.__name__ for found in OPERATIONS.values() if found.request is not None)
    return next((name for name in names if name.casefold() == operation.casefold()), operation)


def fields(operation: str) -> dict[str, FieldUse] | None:
    """Returns the fields that decide on the rights to a request, or None for an unknown request."""
    for found in OPERATIONS.values():
        if found.request is not None and found.kind.__name__ == operation:
            return _fields(found.kind, found.request.needs)
    return None


def _fields(kind: Any, needs: Sequence[Need]) -> dict[str, FieldUse]:
    known: dict[str, FieldUse] = {}
    for need in needs:
        if need.kind is Kind.PEER:
            known["manager"] = FieldUse.OPTIONAL  # the queue manager that sends the request
        if need.field not in ("", EACH):
            is_optional = need.or_all or need.field not in kind._fields
            is_optional = is_optional or need.field in kind._field_defaults
            known[need.field] = FieldUse.OPTIONAL if is_optional else FieldUse.REQUIRED
        if need.when:
            known[need.when] = FieldUse.FLAG
    return known
