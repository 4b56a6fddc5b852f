"""The conditions of a message selector: TRUE, FALSE or UNKNOWN. None represents UNKNOWN.

1. A comparison with NULL is UNKNOWN.
2. A comparison of different types is FALSE for all six operators, as in JMS. All numbers have the
   same type.
3. Strings are ordered by the code points of their characters. Booleans have no order, so ``<``,
   ``<=``, ``>`` and ``>=`` of two booleans are UNKNOWN.
4. NOT of UNKNOWN is UNKNOWN. AND is FALSE if any part is FALSE. OR is TRUE if any part is TRUE.
   Otherwise AND and OR are UNKNOWN if any part is UNKNOWN.

A part that cannot change the result is not evaluated.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from qmgrd.core.selector.value import Expression, Number, ValueOf

Truth: TypeAlias = bool | None
Condition: TypeAlias = Callable[[ValueOf], Truth]

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
# Types that can be compared. A value of any other type counts as NULL.
_LIKE_TYPES: dict[type, type] = {bool: bool, int: float, float: float, str: str}


def every(parts: Sequence[Condition]) -> Condition:
    """Returns ``part AND part ...``."""

    def all_true(value_of: ValueOf) -> Truth:
        truth: Truth = True
        for part in parts:
            found = part(value_of)
            if found is False:
                return False
            if found is None:
                truth = None
        return truth

    return all_true


def some(parts: Sequence[Condition]) -> Condition:
    """Returns ``part OR part ...``."""

    def any_true(value_of: ValueOf) -> Truth:
        truth: Truth = False
        for part in parts:
            found = part(value_of)
            if found is True:
                return True
            if found is None:
                truth = None
        return truth

    return any_true


def opposite(part: Condition) -> Condition:
    """Returns ``NOT part``."""

    def not_true(value_of: ValueOf) -> Truth:
        found = part(value_of)
        return None if found is None else not found

    return not_true


def true(value: Expression) -> Condition:
    """Returns the condition that *value* is TRUE. The result for other types is UNKNOWN."""

    def is_true(value_of: ValueOf) -> Truth:
        found = value(value_of)
        return found if type(found) is bool else None

    return is_true


def comparison(sign: str, left: Expression, right: Expression) -> Condition:
    """Returns ``left sign right``, for one of ``= <> < <= > >=``."""
    return _equality(left, right, sign == "=") if sign in ("=", "<>") else _order(sign, left, right)


def _equality(left: Expression, right: Expression, wanted: bool) -> Condition:
    def equal(value_of: ValueOf) -> Truth:
        one, other = left(value_of), right(value_of)
        kind, other_kind = _LIKE_TYPES.get(type(one)), _LIKE_TYPES.get(type(other))
        if kind is None or other_kind is None:
            return None
        return kind is other_kind and (one == other) is wanted

    return equal


def _order(sign: str, left: Expression, right: Expression) -> Condition:
    before = _ORDERS[sign]

    def ordered(value_of: ValueOf) -> Truth:
        one, other = left(value_of), right(value_of)
        kind, other_kind = _LIKE_TYPES.get(type(one)), _LIKE_TYPES.get(type(other))
        if kind is None or other_kind is None:
            return None
        if kind is not other_kind:
            return False
        return None if kind is bool else before(one, other)

    return ordered


def between(value: Expression, low: Expression, high: Expression) -> Condition:
    """Returns ``value >= low AND value <= high``."""
    return every((_order(">=", value, low), _order("<=", value, high)))


def not_between(value: Expression, low: Expression, high: Expression) -> Condition:
    """Returns ``value < low OR value > high``, as JMS defines NOT BETWEEN."""
    return some((_order("<", value, low), _order(">", value, high)))


def within(
    value: Expression,
    texts: frozenset[str],
    numbers: frozenset[Number],
    facts: Sequence[Expression] = (),
) -> Condition:
    """Returns the condition that *value* equals one of *texts*, *numbers* or *facts*.

    The result is UNKNOWN if *value* equals none of them and one of *facts* is NULL.
    """

    def is_one(value_of: ValueOf) -> Truth:
        found = value(value_of)  # Evaluated only once, because a long sum is expensive.
        kind = _LIKE_TYPES.get(type(found))
        if kind is None:
            return None
        if kind is not bool and found in (texts if kind is str else numbers):
            return True  # Booleans are excluded because True equals 1 in Python.
        truth: Truth = False
        for fact in facts:
            other = fact(value_of)
            other_kind = _LIKE_TYPES.get(type(other))
            if other_kind is None:
                truth = None
            elif other_kind is kind and other == found:
                return True
        return truth

    return is_one


def absent(value: Expression) -> Condition:
    """Returns ``value IS NULL``. The result is never UNKNOWN."""
    return lambda value_of: type(value(value_of)) not in _LIKE_TYPES
