"""Checks whether the rows that a daemon sends match a TypedDict."""

from types import UnionType
from typing import Any, Literal, Required, Union, get_args, get_origin, get_type_hints, is_typeddict


def fault(value: Any, hint: Any, path: str) -> str:
    """Returns the first difference between *value* and the type *hint*, or ""."""
    if hint is Any or get_origin(hint) is Required:
        return "" if hint is Any else fault(value, get_args(hint)[0], path)
    if is_typeddict(hint):
        return row_fault(value, hint, path)
    if get_origin(hint) in (Union, UnionType):
        found = [fault(value, one, path) for one in get_args(hint)]
        return "" if "" in found else found[0]
    if get_origin(hint) is Literal:
        return "" if value in get_args(hint) else f"{path}: {value!r}"
    if get_origin(hint) is list:
        faults = (fault(one, get_args(hint)[0], f"{path}[]") for one in value)
        return next(filter(None, faults), "") if type(value) is list else f"{path}: {value!r}"
    kind = get_origin(hint) or hint
    return "" if type(value) is kind else f"{path}: {value!r} is not {kind}"


def row_fault(row: Any, kind: Any, path: str = "") -> str:
    """Returns the first fault of *row* if read as a row of *kind*, or ""."""
    if type(row) is not dict:
        return f"{path}: {row!r}"
    hints = get_type_hints(kind)
    if lacking := sorted(kind.__required_keys__ - set(row)):
        return f"{path}: lacks {lacking}"
    if further := sorted(set(row) - set(hints)):
        return f"{path}: {further} are not in {kind.__name__}"
    return next(filter(None, (fault(v, hints[k], f"{path}.{k}") for k, v in row.items())), "")


def check(row: Any, verb: Any) -> Any:
    """Checks that *row*, which *verb* returned, has the declared type, and returns it."""
    hint = get_type_hints(verb)["return"]
    if getattr(get_origin(hint), "__name__", "") == "AsyncGenerator":
        hint = list[get_args(hint)[0]]  # type: ignore[misc]
    assert fault(row, hint, verb.__name__) == ""
    return row
