from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from qmgrd.core.selector import condition as conditions
from qmgrd.core.selector.condition import Condition, Truth
from qmgrd.core.selector.value import Value, fact

T, F, U = True, False, None
ALL: tuple[Truth, ...] = (T, F, U)


def always(truth: Truth) -> Condition:
    return lambda value_of: truth


def never(name: str) -> Value:
    raise AssertionError(f"{name} was evaluated")


def ask(condition: Condition, **facts: Any) -> Truth:
    return condition(facts.get)


AND_TABLE = {
    (T, T): T,
    (T, F): F,
    (T, U): U,
    (F, T): F,
    (F, F): F,
    (F, U): F,
    (U, T): U,
    (U, F): F,
    (U, U): U,
}
OR_TABLE = {
    (T, T): T,
    (T, F): T,
    (T, U): T,
    (F, T): T,
    (F, F): F,
    (F, U): U,
    (U, T): T,
    (U, F): U,
    (U, U): U,
}


@pytest.mark.parametrize(("one", "other"), list(product(ALL, repeat=2)))
def test_truth_tables_of_and_and_or(one: Truth, other: Truth) -> None:
    assert ask(conditions.every([always(one), always(other)])) is AND_TABLE[one, other]
    assert ask(conditions.some([always(one), always(other)])) is OR_TABLE[one, other]


@pytest.mark.parametrize(("one", "two", "three"), list(product(ALL, repeat=3)))
def test_three_parts_equal_two_and_one(one: Truth, two: Truth, three: Truth) -> None:
    parts = [always(one), always(two), always(three)]
    assert ask(conditions.every(parts)) is AND_TABLE[AND_TABLE[one, two], three]
    assert ask(conditions.some(parts)) is OR_TABLE[OR_TABLE[one, two], three]


@pytest.mark.parametrize(("truth", "opposite"), [(T, F), (F, T), (U, U)])
def test_truth_table_of_not(truth: Truth, opposite: Truth) -> None:
    assert ask(conditions.opposite(always(truth))) is opposite


@pytest.mark.parametrize(("join", "truth"), [(conditions.every, F), (conditions.some, T)])
def test_terms_that_cannot_change_the_result_are_not_evaluated(
    join: Callable[[list[Condition]], Condition], truth: Truth
) -> None:
    assert join([always(truth), conditions.true(fact("a"))])(never) is truth


@pytest.mark.parametrize(
    ("value", "truth"), [(True, T), (False, F), (None, U), (1, U), ("TRUE", U), (0.0, U)]
)
def test_value_alone_is_true_only_if_it_is_the_boolean(value: Any, truth: Truth) -> None:
    assert ask(conditions.true(fact("a")), a=value) is truth


SIGNS = ("=", "<>", "<", "<=", ">", ">=")


@pytest.mark.parametrize(
    ("one", "other", "truths"),
    [
        (1, 2, (F, T, T, T, F, F)),
        (2, 2, (T, F, F, T, F, T)),
        (3, 2, (F, T, F, F, T, T)),
        (2, 2.0, (T, F, F, T, F, T)),
        (2.5, 2, (F, T, F, F, T, T)),
        (2**53 + 1, 2.0**53, (F, T, F, F, T, T)),
        (10**400, 1.0, (F, T, F, F, T, T)),
        ("a", "a", (T, F, F, T, F, T)),
        ("a", "b", (F, T, T, T, F, F)),
        ("a", "A", (F, T, F, F, T, T)),
        ("a", "a ", (F, T, T, T, F, F)),
        ("", "a", (F, T, T, T, F, F)),
        ("z", "é", (F, T, T, T, F, F)),
        ("10", "9", (F, T, T, T, F, F)),
        ("\uffff", "\U00010000", (F, T, T, T, F, F)),  # The order of UTF-16 units is different.
        (True, True, (T, F, U, U, U, U)),
        (True, False, (F, T, U, U, U, U)),
        (1, "1", (F, F, F, F, F, F)),
        ("1", 1.0, (F, F, F, F, F, F)),
        (True, 1, (F, F, F, F, F, F)),
        (0, False, (F, F, F, F, F, F)),
        (True, "TRUE", (F, F, F, F, F, F)),
        (None, 1, (U, U, U, U, U, U)),
        ("a", None, (U, U, U, U, U, U)),
        (None, None, (U, U, U, U, U, U)),
        (False, None, (U, U, U, U, U, U)),
        (b"a", "a", (U, U, U, U, U, U)),
        (1, [1], (U, U, U, U, U, U)),
    ],
)
def test_comparison(one: Any, other: Any, truths: tuple[Truth, ...]) -> None:
    found = [
        ask(conditions.comparison(sign, fact("one"), fact("other")), one=one, other=other)
        for sign in SIGNS
    ]
    assert tuple(found) == truths


@pytest.mark.parametrize(
    ("value", "low", "high", "truth", "not_between"),
    [
        (15, 15, 19, T, F),
        (19, 15, 19, T, F),
        (17.5, 15, 19, T, F),
        (14, 15, 19, F, T),
        (20, 15, 19, F, T),
        (17, 19, 15, F, T),
        (None, 15, 19, U, U),
        (17, None, 19, U, U),
        (17, 15, None, U, U),
        (14, 15, None, F, T),
        (20, None, 19, F, T),  # The other bound has no effect.
        ("17", 15, 19, F, F),
        (True, 0, 2, F, F),
        ("b", "a", "c", T, F),
        ("c", "a", "c", T, F),
        ("d", "a", "c", F, T),
        (True, False, True, U, U),
        ("b", "a", 7, F, F),
        ("b", None, "c", U, U),
        ("d", None, "c", F, T),
    ],
)
def test_between(value: Any, low: Any, high: Any, truth: Truth, not_between: Truth) -> None:
    bounds = fact("value"), fact("low"), fact("high")
    facts = {"value": value, "low": low, "high": high}
    assert ask(conditions.between(*bounds), **facts) is truth
    assert ask(conditions.not_between(*bounds), **facts) is not_between


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        ("UA", T),
        ("DL", F),
        ("1", F),
        (1, T),
        (1.0, T),
        (2, F),
        (True, F),
        (False, F),
        (None, U),
        (b"UA", U),
        ([], U),
        (float("nan"), F),
        (10**400, F),
    ],
)
def test_within(value: Any, truth: Truth) -> None:
    condition = conditions.within(fact("a"), frozenset(("UA", "AA")), frozenset((1, 0)))
    assert ask(condition, a=value) is truth


@pytest.mark.parametrize(
    ("value", "b", "c", "truth"),
    [
        ("UA", None, None, T),
        ("DL", "DL", None, T),
        ("DL", None, "DL", T),
        ("DL", 1, "AA", F),
        ("DL", None, "AA", U),
        ("DL", b"DL", "AA", U),
        (None, "UA", None, U),
        (5, 5.0, "x", T),
        (True, True, 1, T),
        (True, 1, "TRUE", F),
        (True, None, 1, U),
        (1, True, False, F),
    ],
)
def test_within_facts(value: Any, b: Any, c: Any, truth: Truth) -> None:
    condition = conditions.within(
        fact("a"), frozenset(("UA",)), frozenset(), (fact("b"), fact("c"))
    )
    assert ask(condition, a=value, b=b, c=c) is truth


def test_within_evaluates_its_value_once() -> None:
    asked: list[str] = []
    condition = conditions.within(fact("a"), frozenset(), frozenset(), [fact("b")] * 3)

    def value_of(name: str) -> Value:
        asked.append(name)
        return name

    assert condition(value_of) is F
    assert asked == ["a", "b", "b", "b"]


@pytest.mark.parametrize(
    ("value", "truth"), [(None, T), (0, F), ("", F), (False, F), (0.0, F), (b"", T)]
)
def test_absent_is_never_unknown(value: Any, truth: Truth) -> None:
    assert ask(conditions.absent(fact("a")), a=value) is truth
