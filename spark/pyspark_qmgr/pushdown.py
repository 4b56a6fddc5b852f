"""Translates Spark's filters into conditions of the tables.

Pushdown is off in Spark by default (spark.sql.python.filterPushdown.enabled). While it is off,
Spark rejects a reader that defines ``pushFilters``. To check this, Spark compares the function of
the method. Therefore, the reader has an instance of :class:`Pushed` as ``pushFilters``. The
instance compares equal to the inherited method.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from qmgr_tables import instant
from qmgr_tables.filters import Filters

if TYPE_CHECKING:
    from qmgr_tables.table import Table

# These columns are never null, and each row read has a selected value. Therefore, Spark does not
# have to filter the rows again.
_EXACT = ("managers", "snapshots", "queues")
_BOUNDS = ("us", "arrival")
Push = Callable[[list[Filter]], Iterable[Filter]]


class Pushed:
    """A ``pushFilters`` that Spark cannot distinguish from the inherited method."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Push) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Returns those objects in *filters* that Spark must apply itself."""
        return self._push(filters)


def push(table: "Table", filters: list[Filter], known: Filters) -> tuple[Filters, list[Filter]]:
    """Returns *known* extended by *filters*, and the filters that Spark must still apply."""
    left = []
    for one in filters:
        part = _part(table, one)
        narrowed = _narrowed(part, one, known) if part else None
        known = known if narrowed is None else narrowed
        if narrowed is None or part not in _EXACT:
            left.append(one)
    return known, left


def _part(table: "Table", one: Filter) -> str:
    """Returns the part of the filters that *one* restricts, or "" if *one* restricts none."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return table.pushed.get(path[0], "") if len(path) == 1 else ""


def _narrowed(part: str, one: Filter, known: Filters) -> Filters | None:
    """Returns *known* extended by *one*, or None if *one* is not supported."""
    if isinstance(one, IsNotNull):
        return known
    if part in _BOUNDS:
        return _bounded(part, one, known)
    if isinstance(one, In):
        names = one.value
    elif isinstance(one, EqualTo | EqualNullSafe):
        names = (one.value,)
    else:
        return None
    if not all(type(name) is str for name in names):
        return None  # A set of names cannot contain null.
    return known.with_names(part, frozenset(names))


def _bounded(part: str, one: Filter, known: Filters) -> Filters | None:
    values = list(_numbers(part, one))
    if not values:
        return None
    low, high = min(values), max(values) + 1
    if isinstance(one, In | EqualTo | EqualNullSafe):
        return known.with_bounds(part, low, high)
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return known.with_bounds(part, low + isinstance(one, GreaterThan), None)
    if isinstance(one, LessThan | LessThanOrEqual):
        return known.with_bounds(part, None, high - isinstance(one, LessThan))
    return None


def _numbers(part: str, one: Filter) -> Iterator[int]:
    """Yields the values of *one* as numbers, or no values if a value is not supported."""
    value: Any = getattr(one, "value", None)
    values = list(value) if isinstance(one, In) else [value]
    found = [_number(part, one_value) for one_value in values]
    if None not in found:
        yield from (number for number in found if number is not None)


def _number(part: str, value: Any) -> int | None:
    if part == "us":
        is_moment = isinstance(value, datetime) and value.tzinfo is not None
        return instant.micros(value) if is_moment else None
    return value if type(value) is int else None
