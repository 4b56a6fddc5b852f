"""Checks of the fields of a message. Types are exact: a bool does not pass as an integer.

Each check carries a description as data. protocol/spec.json is generated from these descriptions.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

Check = Callable[[Any], str]  # a function that returns the reason why a value is invalid, or ""

Description = dict[str, Any]  # description of a type and its bounds, as in protocol/spec.json

_BINARY = frozenset({bytes})
_SHOWN_MAX = 60
_DESCRIPTIONS: WeakKeyDictionary[Check, Description] = WeakKeyDictionary()


def description_of(check: Check) -> Description:
    """Returns the description of *check*, which must be a check of this module."""
    return _DESCRIPTIONS[check]


def _described(check: Check, kind: str, **bounds: Any) -> Check:
    """Describes *check* by the name and bounds of a type; returns *check*."""
    _DESCRIPTIONS[check] = {"type": kind, **bounds}
    return check


def _all(checks: tuple[Check, ...]) -> list[Description]:
    return [_DESCRIPTIONS[check] for check in checks]


def integer(low: int, high: int) -> Check:
    """Returns a check for an integer from *low* to *high*."""

    def check(value: Any) -> str:
        if type(value) is int and low <= value <= high:
            return ""
        return f"{_show(value)} is not an integer from {low} to {high}"

    return _described(check, "integer", min=low, max=high)


def among(*values: int) -> Check:
    """Returns a check for an integer that is one of *values*."""

    def check(value: Any) -> str:
        if type(value) is int and value in values:
            return ""
        return f"{_show(value)} is not one of {', '.join(map(str, values))}"

    return _described(check, "integer", values=list(values))


def text(length_max: int) -> Check:
    """Returns a check for text of at most *length_max* characters."""

    def check(value: Any) -> str:
        if type(value) is str and len(value) <= length_max:
            return ""
        return f"{_show(value)} is not text of at most {length_max} characters"

    return _described(check, "text", characters_max=length_max)


def binary(length_max: int, multiple: int = 1) -> Check:
    """Returns a check for a binary of at most *length_max* bytes, in a multiple of *multiple*."""

    def check(value: Any) -> str:
        if type(value) is bytes and len(value) <= length_max and len(value) % multiple == 0:
            return ""
        pieces = f", in a multiple of {multiple}" if multiple > 1 else ""
        return f"{_show(value)} is not binary of at most {length_max} bytes{pieces}"

    return _described(check, "binary", bytes_max=length_max, multiple_of=multiple)


def exactly(length: int) -> Check:
    """Returns a check for a binary of *length* bytes."""

    def check(value: Any) -> str:
        if type(value) is bytes and len(value) == length:
            return ""
        return f"{_show(value)} is not binary of {length} bytes"

    return _described(check, "binary", bytes=length)


def array(length_max: int, element: Check) -> Check:
    """Returns a check for an array of at most *length_max* elements that all pass *element*."""

    def check(value: Any) -> str:
        if type(value) is not list or len(value) > length_max:
            return f"{_show(value)} is not an array of at most {length_max} elements"
        for item in value:
            if why := element(item):
                return why
        return ""

    return _described(check, "array", length_max=length_max, of=_DESCRIPTIONS[element])


def row(*columns: Check) -> Check:
    """Returns a check for an array that starts with one element for each of *columns*."""

    def check(value: Any) -> str:
        if type(value) is not list or len(value) < len(columns):
            return f"{_show(value)} is not an array of at least {len(columns)} elements"
        for item, column in zip(value, columns, strict=False):
            if why := column(item):
                return why
        return ""

    return _described(check, "row", columns=_all(columns))


def mapping(length_max: int, key: Check, element: Check) -> Check:
    """Returns a check for a map of at most *length_max* entries that pass *key* and *element*."""

    def check(value: Any) -> str:
        if type(value) is not dict or len(value) > length_max:
            return f"{_show(value)} is not a map of at most {length_max} entries"
        for name, item in value.items():
            if why := key(name):
                return f"as a key: {why}"
            if why := element(item):
                return f"under {_show(name)}: {why}"
        return ""

    return _described(
        check, "map", length_max=length_max, keys=_DESCRIPTIONS[key], values=_DESCRIPTIONS[element]
    )


def either(*checks: Check) -> Check:
    """Returns a check for values that pass one of *checks*."""

    def check(value: Any) -> str:
        whys = [check(value) for check in checks]
        return "" if "" in whys else whys[-1]

    return _described(check, "either", of=_all(checks))


def optional(check_present: Check) -> Check:
    """Returns a check for nil and for values that pass *check_present*."""

    def check(value: Any) -> str:
        return "" if value is None else check_present(value)

    return _described(check, "either", of=[{"type": "nil"}, _DESCRIPTIONS[check_present]])


def flag(value: Any) -> str:
    """Checks that *value* is true or false."""
    return "" if type(value) is bool else f"{_show(value)} is not true or false"


def fraction(value: Any) -> str:
    """Checks that *value* is a float."""
    return "" if type(value) is float else f"{_show(value)} is not a number"


def blobs(value: Any) -> str:
    """Checks that *value* is an array of binaries. The frame bounds their number and size."""
    if type(value) is list and _BINARY.issuperset(map(type, value)):
        return ""
    return f"{_show(value)} is not an array of binaries"


def shallow(depth_max: int) -> Check:
    """Returns a check for any value whose arrays and maps are nested at most *depth_max* deep.

    Code that shows or compares values of greater depth would fail with a RecursionError.
    """

    def check(value: Any) -> str:
        level = [value]
        for _ in range(depth_max + 1):
            arrays = [item for item in level if type(item) is list]
            maps = [item.values() for item in level if type(item) is dict]
            if not arrays and not maps:
                return ""
            level = [item for container in (*arrays, *maps) for item in container]
        return f"{_show(value)} is nested more than {depth_max} levels deep"

    return _described(check, "any", depth_max=depth_max)


def _show(value: Any) -> str:
    """Returns a short description of *value*, regardless of its size."""
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if isinstance(value, dict):
        return f"a map of {len(value)}"
    shown = repr(value[:_SHOWN_MAX] if isinstance(value, str | bytes) else value)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[: _SHOWN_MAX - 3]}..."


_described(flag, "flag")
_described(fraction, "float")
_described(blobs, "array", of={"type": "binary"})
# Exclusive upper limits: first of the ids of requests and streams, then of the ids of messages.
ID_END, SEQ_END = 2**32, 2**63
ID = integer(1, ID_END - 1)
SEQ = integer(1, SEQ_END - 1)
U8 = integer(0, 2**8 - 1)
U16 = integer(0, 2**16 - 1)
U32 = integer(0, 2**32 - 1)
U64 = integer(0, 2**63 - 1)  # The upper limit fits into a signed 64-bit integer.
TEXT = text(1_024)
# The limit exceeds any valid name, so that NAME_INVALID can explain the rules of names.
NAME = text(1_024)  # name of an object, for which the request needs a right
NAMES = array(1_000, NAME)
PREVIOUS_NAME = text(1_024)
LONG_TEXT = text(4_096)
SCALAR = optional(either(flag, integer(-(2**63), 2**63 - 1), fraction, TEXT))
