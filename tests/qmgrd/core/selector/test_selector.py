"""Tests of complete selectors, compared with an independent plain evaluator."""

import operator
import re
from collections.abc import Mapping
from fractions import Fraction
from math import isfinite, trunc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import REASON_TEXT_MAX
from qmgrd.core.queue.facts import BUILT_IN
from qmgrd.core.selector import parser as selector_parser
from qmgrd.core.selector.lexer import TEXT_MAX
from qmgrd.core.selector.parser import DEPTH_MAX, IN_MAX, TERMS_MAX
from qmgrd.core.selector.pattern import LIKE_TEXT_MAX, steps
from qmgrd.core.selector.selector import (
    ENVELOPE_STEPS,
    REST_STEPS,
    SUBSCRIPTION_STEPS_MAX,
    TERM_STEPS,
    Value,
    check_subscription,
    compile_selector,
    highest,
    sum_of,
)

FACTS: dict[str, Value] = {
    "priority": 7,
    "carrier": "UA",
    "origin": "EWR",
    "delay": 12.5,
    "late": True,
    "JMSPriority": 7,
    '"content-type"': "text/plain",
    '"priority"': "high",
    "note": "50%",
}


def matches(text: str, facts: Mapping[str, Value] = FACTS) -> bool:
    return compile_selector(text).matches(facts.get)


TABLE = [
    # TRUE, FALSE, UNKNOWN
    ("priority = 7", "priority = 8", "gate = 7"),
    ("priority <> 8", "priority <> 7", "gate <> 7"),
    ("priority < 8", "priority < 7", "gate < 7"),
    ("priority <= 7", "priority <= 6", "gate <= 7"),
    ("priority > 6", "priority > 7", "gate > 7"),
    ("priority >= 7", "priority >= 8", "late >= late"),
    ("priority != 8", "priority != 7", "gate != 7"),
    ("carrier < 'UB'", "carrier < 'UA'", "gate < 'UA'"),
    ("carrier >= origin", "carrier <= origin", "carrier >= gate"),
    ("carrier BETWEEN 'U' AND 'V'", "carrier BETWEEN 'A' AND 'U'", "gate BETWEEN 'U' AND 'V'"),
    ("delay % 5 = 2.5", "priority % 4 = 2", "delay % 0 = 1"),
    ("7 IN (priority, gate)", "7 IN (8)", "8 IN (priority, gate)"),
    ("priority % 4 IN (3)", "priority % 4 NOT IN (3)", "gate % 4 IN (3)"),
    ("carrier = 'UA'", "carrier = 'ua'", "gate = 'UA'"),
    ("carrier <> 'AA'", "carrier <> 'UA'", "gate <> 'AA'"),
    ("late = TRUE", "late = FALSE", "gate = TRUE"),
    ("late", "NOT late", "carrier"),
    ("TRUE", "FALSE", "gate"),
    ("priority BETWEEN 1 AND 9", "priority BETWEEN 8 AND 9", "gate BETWEEN 1 AND 9"),
    ("priority NOT BETWEEN 1 AND 2", "priority NOT BETWEEN 1 AND 9", "gate NOT BETWEEN 1 AND 9"),
    ("carrier IN ('UA', 'AA')", "carrier IN ('DL')", "gate IN ('UA')"),
    ("carrier NOT IN ('DL')", "carrier NOT IN ('UA', 'AA')", "gate NOT IN ('UA')"),
    ("carrier LIKE 'U%'", "carrier LIKE 'A%'", "gate LIKE '%'"),
    ("carrier NOT LIKE 'A%'", "carrier NOT LIKE 'U%'", "gate NOT LIKE '%'"),
    ("note LIKE '50!%' ESCAPE '!'", "note LIKE '5!%' ESCAPE '!'", "gate LIKE '!%' ESCAPE '!'"),
    ("gate IS NULL", "carrier IS NULL", "carrier IS NULL AND gate OR gate"),
    ("carrier IS NOT NULL", "gate IS NOT NULL", "gate IS NOT NULL OR gate"),
    ("delay + 1 = 13.5", "delay + 1 = 13", "gate + 1 = 1"),
    ("delay - 1 = 11.5", "delay - 1 = 13", "carrier - 1 = 1"),
    ("delay * 2 = 25", "delay * 2 = 24", "delay * late = 12.5"),
    ("delay / 5 = 2.5", "delay / 5 = 2", "delay / 0 = 1"),
    ("-priority = -7", "-priority = 7", "-gate = 7"),
    ("+priority = 7", "+priority = -7", "+carrier = 7"),
    ("late AND priority = 7", "gate AND priority = 8", "late AND gate"),
    ("gate OR late", "NOT late OR NOT TRUE", "gate OR NOT late"),
    ("\"content-type\" = 'text/plain'", "\"priority\" = 'low'", "content-type = 1"),
]


@pytest.mark.parametrize(("true", "false", "unknown"), TABLE)
def test_only_true_matches(true: str, false: str, unknown: str) -> None:
    assert matches(true)
    assert not matches(f"NOT ({true})")
    assert not matches(false)
    assert matches(f"NOT ({false})")
    assert not matches(unknown)
    assert not matches(f"NOT ({unknown})")


def test_steps_grow_with_the_terms_the_like_and_the_message() -> None:
    few, many = compile_selector("a = 1"), compile_selector("a = 1 OR " * 20 + "a = 1")
    assert few.steps(100, 0) == 100 + 2 * TERM_STEPS
    assert many.steps(100, 0) == 100 + 42 * TERM_STEPS
    assert few.steps(1 << 20, 100) == (1 << 20) + 2 * TERM_STEPS + 100 * ENVELOPE_STEPS
    like = compile_selector("a LIKE '%_bc%' OR a LIKE '%_bc%' ESCAPE '!'")
    texts = [REASON_TEXT_MAX, REASON_TEXT_MAX + 50, LIKE_TEXT_MAX, LIKE_TEXT_MAX]
    found = [like.steps(0, size) - size * ENVELOPE_STEPS for size in (0, 50, 4_096, 60_000)]
    assert found == [4 * TERM_STEPS + 2 * text * steps("%_bc%") for text in texts]


def test_steps_grow_with_remainders_and_with_ordered_facts() -> None:
    rests = compile_selector("a % 2 = 1 OR a % 3 = 1")
    assert rests.steps(0, 0) == 6 * TERM_STEPS + 2 * REST_STEPS
    orders = compile_selector("a < b OR a >= 5 OR a > 'x'")
    assert orders.steps(0, 60_000) == (
        6 * TERM_STEPS + 60_000 * ENVELOPE_STEPS + 60_000 + REASON_TEXT_MAX
    )


def test_cost_of_several_selectors() -> None:
    texts = ("a = 1 OR b = 1", "a LIKE '%_bc%'", "a < b", "a % 2 = 1")
    selectors = [compile_selector(text) for text in texts]
    costs = [selector.cost for selector in selectors]
    for sizes in ((0, 0), (1_000, 10), (1 << 20, 60_000)):
        each = [selector.steps(*sizes) for selector in selectors]
        assert sum_of(costs).steps(*sizes) == sum(each)
        assert max(each) <= highest(costs).steps(*sizes) < sum(each)
        assert highest(costs[:1]).steps(*sizes) == each[0]
        assert sum_of([]).steps(*sizes) == highest([]).steps(*sizes) == 0


def test_selector_of_a_subscription_has_a_limit_of_steps() -> None:
    def steps_of(text: str) -> int:
        return compile_selector(text).cost.long_text_steps - 2 * TERM_STEPS

    # docs/SELECTORS.md states these numbers.
    assert steps_of("a LIKE 'JFK/%'") == 4_096
    assert steps_of("a LIKE '%N5__U%'") == 131_072
    assert steps_of("a < b") == 4_096
    assert steps_of("a % 2 = 1") == TERM_STEPS + REST_STEPS
    limit = (SUBSCRIPTION_STEPS_MAX - 2 * TERM_STEPS) // 4_096
    count = (limit - 22) // 2
    assert steps(f"%{'_' * count}%") <= limit < steps(f"%{'_' * (count + 1)}%")
    check_subscription(compile_selector(f"a LIKE '%{'_' * count}%'"))
    with pytest.raises(RequestError, match="limit for a subscription is 1000000") as caught:
        check_subscription(compile_selector(f"a LIKE '%{'_' * (count + 1)}%'"))
    assert caught.value.code == ErrorCode.SELECTOR_INVALID
    check_subscription(compile_selector(" OR ".join(["a = 1"] * (TERMS_MAX // 2))))


def test_name_is_looked_up_only_if_it_matters() -> None:
    asked: list[str] = []

    def value_of(name: str) -> Value | None:
        asked.append(name)
        return FACTS.get(name)

    assert not compile_selector("priority > 7 AND carrier = 'UA'").matches(value_of)
    assert asked == ["priority"]


def test_malformed_text_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        compile_selector("priority = AND carrier = 'UA'")
    assert caught.value.code == ErrorCode.SELECTOR_INVALID
    assert caught.value.text == "column 12: expected a value after '=', found 'AND'"


# The plain evaluator. A tree is a tuple of its kind and its parts. Truth values are 0 (false), 1
# (unknown) and 2 (true).

Tree = tuple[Any, ...]
NUMBERS = st.integers(0, 12) | st.sampled_from((2**62, 2**63 - 1, 0.0, 0.5, 2.0, 7.25, 1e300, 1e19))
TEXTS = st.text("a%_'x", max_size=3)
NAMES = st.sampled_from(("n", "m", "big", "fraction", "s", "s2", "yes", "no", "gone", '"n"'))
HELD: dict[str, Value] = {
    "n": 7,
    "m": -2,
    "big": 2**64 - 1,
    "fraction": 2.5,
    "s": "ax",
    "s2": "it's",
    "yes": True,
    "no": False,
    '"n"': "a",
}
names = st.tuples(st.just("name"), NAMES)
numbers: st.SearchStrategy[Tree] = st.recursive(
    names | st.tuples(st.just("literal"), NUMBERS),
    lambda inner: (
        st.tuples(st.sampled_from("+-*/%"), inner, inner) | st.tuples(st.just("negative"), inner)
    ),
    max_leaves=5,
)
texts = names | st.tuples(st.just("literal"), TEXTS)
INS = st.sampled_from(("IN", "NOT IN"))


def literals(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("literal"), values)


elements = names | literals(NUMBERS | st.integers(-9, -1))
booleans = names | st.tuples(st.just("literal"), st.booleans())
EQUAL, ORDER = st.sampled_from(("=", "<>", "!=")), st.sampled_from(("<", "<=", ">", ">="))
predicates = (
    booleans
    | st.tuples(EQUAL | ORDER, numbers, numbers)
    | st.tuples(EQUAL | ORDER, texts, texts)
    | st.tuples(EQUAL, booleans, booleans)
    | st.tuples(st.sampled_from(("BETWEEN", "NOT BETWEEN")), numbers, numbers, numbers)
    | st.tuples(st.sampled_from(("BETWEEN", "NOT BETWEEN")), texts, texts, texts)
    | st.tuples(INS, names, st.lists(elements | literals(TEXTS), min_size=1, max_size=3))
    | st.tuples(INS, numbers, st.lists(elements, min_size=1, max_size=3))
    | st.tuples(INS, texts, st.lists(names | literals(TEXTS), min_size=1, max_size=3))
    | st.tuples(st.sampled_from(("LIKE", "NOT LIKE")), names, TEXTS)
    | st.tuples(st.sampled_from(("IS NULL", "IS NOT NULL")), names)
)
trees: st.SearchStrategy[Tree] = st.recursive(
    predicates,
    lambda inner: (
        st.tuples(st.sampled_from(("AND", "OR")), inner, inner) | st.tuples(st.just("NOT"), inner)
    ),
    max_leaves=8,
)
LEVELS = {
    "OR": 1,
    "AND": 2,
    "NOT": 3,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
    "negative": 7,
    "name": 8,
    "literal": 8,
}
PREDICATE = 4


def constant(value: Value) -> str:
    if isinstance(value, bool):
        return str(value)
    return repr(value) if not isinstance(value, str) else "'" + value.replace("'", "''") + "'"


def printed(tree: Tree, least: int = 0) -> str:
    """Returns the text with only those parentheses that the level *least* requires."""
    kind, *parts = tree
    level = LEVELS.get(kind, PREDICATE)
    if kind in ("name", "literal"):
        text = parts[0] if kind == "name" else constant(parts[0])
    elif kind == "NOT":
        text = f"NOT {printed(parts[0], level)}"
    elif kind == "negative":
        text = f"-{printed(parts[0], level)}"
    elif "NULL" in kind:
        text = f"{printed(parts[0], 5)} {kind}"
    elif "BETWEEN" in kind:
        value, low, high = (printed(part, 5) for part in parts)
        text = f"{value} {kind} {low} AND {high}"
    elif kind in ("IN", "NOT IN"):
        text = f"{printed(parts[0], 5)} {kind} ({', '.join(map(printed, parts[1]))})"
    elif "LIKE" in kind:
        text = f"{printed(parts[0], 5)} {kind} {constant(parts[1])}"
    else:
        left = 5 if level == PREDICATE else level  # Comparisons do not chain.
        text = f"{printed(parts[0], left)} {kind} {printed(parts[1], level + 1)}"
    return f"({text})" if level < least else text


def number(tree: Tree) -> Value | None:
    kind, *parts = tree
    if kind in ("name", "literal"):
        return HELD.get(parts[0]) if kind == "name" else parts[0]
    found = [number(part) for part in parts]
    if any(isinstance(each, bool | str | None) for each in found):
        return None
    if kind == "negative":
        found = [0 if type(found[0]) is int else -0.0, found[0]]
    try:
        result = calculated("-" if kind == "negative" else kind, *found)
    except (ZeroDivisionError, OverflowError):
        return None
    is_held = -(2**63) <= result < 2**63 if type(result) is int else isfinite(result)
    return result if is_held else None


def calculated(sign: str, one: Any, other: Any) -> Any:
    if sign in "/%" and type(one) is type(other) is int:
        quotient = trunc(Fraction(one, other))
        return quotient if sign == "/" else one - quotient * other
    if sign == "%":  # Fractions are not rounded.
        one, other = Fraction(float(one)), Fraction(float(other))
        return float(one - trunc(one / other) * other)
    by_sign = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
    return by_sign[sign](one, other)


def truth(tree: Tree) -> int:
    kind, *parts = tree
    match kind:
        case "AND":
            return min(map(truth, parts))
        case "OR":
            return max(map(truth, parts))
        case "NOT":
            return 2 - truth(parts[0])
        case "name" | "literal":
            value = number(tree)
            return 2 * value if isinstance(value, bool) else 1
    return predicate(kind, number(parts[0]), *parts[1:])


def predicate(kind: str, value: Value | None, *rest: Any) -> int:
    word = kind.removeprefix("NOT ")
    match word:
        case "IS NULL" | "IS NOT NULL":
            return 2 * ((value is None) is (word == "IS NULL"))
        case "IN":
            found = max(compared("=", value, number(each)) for each in rest[0])
        case "LIKE":
            found = 1 if value is None else 2 * (isinstance(value, str) and like(value, rest[0]))
        case "BETWEEN":
            low, high = map(number, rest)
            if word != kind:
                return max(compared("<", value, low), compared(">", value, high))
            return min(compared(">=", value, low), compared("<=", value, high))
        case _:
            return compared(kind, value, number(rest[0]))
    return found if word == kind else 2 - found


def compared(sign: str, one: Any, other: Any) -> int:
    if one is None or other is None:
        return 1
    is_order = sign not in ("=", "<>", "!=")
    kinds = {str if isinstance(each, str) else type(each) is bool for each in (one, other)}
    if len(kinds) > 1:
        return 0
    if is_order and kinds == {True}:
        return 1
    holds = {
        "=": one == other,
        "<>": one != other,
        "!=": one != other,
        "<": is_order and one < other,
        "<=": is_order and one <= other,
        ">": is_order and one > other,
        ">=": is_order and one >= other,
    }
    return 2 if holds[sign] else 0


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


@given(trees)
def test_random_condition_agrees_with_the_plain_evaluator(tree: Tree) -> None:
    text = printed(tree)
    assert matches(text, HELD) is (truth(tree) == 2), text
    assert matches(f"NOT ({text})", HELD) is (truth(tree) == 0), text


@given(trees)
def test_all_facts_absent_leaves_an_answer(tree: Tree) -> None:
    assert matches(printed(tree), {}) in (True, False)


PAGE = (Path(__file__).parents[4] / "docs/SELECTORS.md").read_text()


def test_each_example_of_the_page_is_a_selector() -> None:
    part = PAGE.partition("\n## Examples\n")[2].partition("\n## ")[0]
    examples = re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE)
    assert len(examples) > 10
    for example in examples:
        asked: set[str] = set()
        selector = compile_selector(example)
        selector.matches(asked.add)
        assert asked, example
        check_subscription(selector)


def test_page_has_each_fact_limit_and_rule_of_the_grammar() -> None:
    names = PAGE.partition("\n## Names\n")[2].partition("\n## ")[0]
    for name in BUILT_IN:
        assert f"| `{name}` |" in names
    limits = PAGE.partition("\n## Limits\n")[2]
    for limit in (TEXT_MAX, DEPTH_MAX, TERMS_MAX, IN_MAX, LIKE_TEXT_MAX):
        assert f"| {limit:,}" in limits
    for line in (selector_parser.__doc__ or "").splitlines():
        if " := " in line:
            assert line.strip() in PAGE
