"""The values in a message selector, and their arithmetic. None represents NULL.

A calculation with NULL is NULL. A calculation never raises, and the size of its result is limited.
The result is NULL for an integer of more than 64 bits, an infinite decimal, NaN, a division or
remainder by zero, or a calculation with a value that is not a number.
"""

from collections.abc import Callable
from math import fmod, isfinite
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str
ValueOf: TypeAlias = Callable[[str], Value | None]  # a function from a name to its value
Expression: TypeAlias = Callable[[ValueOf], Value | None]
Number: TypeAlias = int | float

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def literal(value: Value) -> Expression:
    """Returns an expression that is always *value*."""
    return lambda value_of: value


def fact(name: str) -> Expression:
    """Returns an expression that evaluates to the value of *name* in the message."""
    return lambda value_of: value_of(name)


def negative(operand: Expression) -> Expression:
    """Returns ``- operand``."""

    def negated(value_of: ValueOf) -> Number | None:
        value = operand(value_of)
        return _bounded(-value) if type(value) is int or type(value) is float else None

    return negated


def positive(operand: Expression) -> Expression:
    """Returns ``+ operand``: a number, or NULL."""

    def same(value_of: ValueOf) -> Number | None:
        value = operand(value_of)
        return value if type(value) is int or type(value) is float else None

    return same


def calculation(sign: str, left: Expression, right: Expression) -> Expression:
    """Returns ``left sign right``, for one of ``+ - * / %``."""
    calculate = _CALCULATIONS[sign]

    def calculated(value_of: ValueOf) -> Number | None:
        one, other = left(value_of), right(value_of)
        if not (type(one) is int or type(one) is float):
            return None
        if not (type(other) is int or type(other) is float):
            return None
        try:
            return _bounded(calculate(one, other))
        # The cause is an integer too large for a float, times a float, or a remainder by 0.0.
        except (OverflowError, ValueError, ZeroDivisionError):
            return None

    return calculated


def _bounded(value: Number) -> Number | None:
    if type(value) is int:
        return value if LONG_MIN <= value <= LONG_MAX else None
    return value if isfinite(value) else None


def _quotient(one: Number, other: Number) -> Number:
    """Returns *one* divided by *other*.

    For two integers, the result is truncated toward zero, as in JMS.
    """
    if type(one) is int and type(other) is int:
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) is (other < 0) else -quotient
    return one / other


def _rest(one: Number, other: Number) -> Number:
    """Returns the remainder of a division truncated toward zero, with the sign of *one*, as in
    SQL.
    """
    if type(one) is int and type(other) is int:
        rest = abs(one) % abs(other)
        return rest if one >= 0 else -rest
    return fmod(one, other)


_CALCULATIONS: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _quotient,
    "%": _rest,
}
