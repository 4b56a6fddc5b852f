from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.selector.value import Value, ValueOf, calculation, fact, literal, negative, positive

HUGE = 10**400
VALUES = (
    st.none()
    | st.booleans()
    | st.text(max_size=3)
    | st.floats()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from((HUGE, -HUGE))
)


def nothing(name: str) -> None:
    raise AssertionError(f"{name} was evaluated")


@pytest.mark.parametrize(
    ("one", "sign", "other", "value"),
    [
        (7, "+", 2, 9),
        (7, "-", 2, 5),
        (7, "*", 2, 14),
        (7, "+", 0.5, 7.5),
        (7.0, "-", 2, 5.0),
        (7, "/", 2, 3),
        (-7, "/", 2, -3),
        (7, "/", -2, -3),
        (-7, "/", -2, 3),
        (0, "/", -2, 0),
        (7, "/", 2.0, 3.5),
        (7.0, "/", 2, 3.5),
        (1, "/", 0, None),
        (1.0, "/", 0, None),
        (0, "/", 0.0, None),
        (0.0, "/", 0.0, None),
        (2**63 - 1, "+", 1, None),
        (-(2**63), "-", 1, None),
        (2**62, "*", 2, None),
        (2**62, "+", 2**62 - 1, 2**63 - 1),
        (-(2**62), "*", 2, -(2**63)),
        (-(2**63), "/", -1, None),
        (2**63, "-", 1, 2**63 - 1),
        (1e308, "*", 10, None),
        (-1e308, "-", 1e308, None),
        (inf, "-", inf, None),
        (nan, "+", 1, None),
        (inf, "+", 1, None),
        (1e-308, "/", 1e308, 0.0),
        (HUGE, "*", 1.5, None),
        (1.5, "-", HUGE, None),
        (HUGE, "/", 0.5, None),
        (7, "%", 2, 1),
        (-7, "%", 2, -1),
        (7, "%", -2, 1),
        (-7, "%", -2, -1),
        (6, "%", 3, 0),
        (-(2**63), "%", -1, 0),
        (2**63 - 1, "%", 2**62, 2**62 - 1),
        (3, "%", 2**63 - 1, 3),
        (7, "%", 2.5, 2.0),
        (-7.5, "%", 2, -1.5),
        (7.5, "%", -2, 1.5),
        (0.5, "%", 1, 0.5),
        (1, "%", 0, None),
        (1, "%", 0.0, None),
        (1.0, "%", 0, None),
        (inf, "%", 2, None),
        (1.0, "%", inf, 1.0),
        (nan, "%", 1, None),
        (HUGE, "%", 1.5, None),
        (HUGE, "%", HUGE, 0),
        ("7", "%", 2, None),
        (7, "%", True, None),
        (None, "%", 2, None),
        (HUGE, "/", HUGE, 1),
        (None, "+", 1, None),
        (1, "+", None, None),
        ("1", "+", 1, None),
        (1, "*", "2", None),
        (True, "+", 1, None),
        (1, "/", True, None),
    ],
)
def test_calculation(one: Value | None, sign: str, other: Value | None, value: object) -> None:
    facts = {"one": one, "other": other}
    found = calculation(sign, fact("one"), fact("other"))(facts.get)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "minus", "plus"),
    [
        (5, -5, 5),
        (-2.5, 2.5, -2.5),
        (2**63, -(2**63), 2**63),
        (-(2**63), None, -(2**63)),
        (None, None, None),
        ("5", None, None),
        (True, None, None),
        (inf, None, inf),
    ],
)
def test_sign(value: Value | None, minus: object, plus: object) -> None:
    value_of: ValueOf = {"a": value}.get
    assert negative(fact("a"))(value_of) == minus
    assert positive(fact("a"))(value_of) == plus


def test_literal_looks_up_nothing() -> None:
    assert literal("x")(nothing) == "x"


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-(2**63) + 1, 2**63 - 1).filter(bool))
def test_quotient_and_rest_make_the_whole(one: int, other: int) -> None:
    facts = {"a": one, "b": other}
    quotient, rest = (calculation(sign, fact("a"), fact("b"))(facts.get) for sign in "/%")
    assert type(quotient) is type(rest) is int
    assert quotient * other + rest == one
    assert abs(rest) < abs(other)
    assert rest == 0 or (rest < 0) is (one < 0)


@given(VALUES, st.sampled_from("+-*/%"), VALUES, st.sampled_from("+-*/%"), VALUES)
def test_nothing_raises_and_nothing_grows(
    a: Value | None, sign: str, b: Value | None, other_sign: str, c: Value | None
) -> None:
    facts = {"a": a, "b": b, "c": c}
    inner = calculation(sign, fact("a"), negative(fact("b")))
    found = calculation(other_sign, inner, fact("c"))(facts.get)
    assert found is None or type(found) is float or -(2**63) <= int(found) < 2**63
    assert type(found) in (int, float, type(None))
