from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.selector.lexer import KEYWORDS, TEXT_MAX
from qmgrd.core.selector.parser import DEPTH_MAX, IN_MAX, TERMS_MAX, parse

FACTS: dict[str, Any] = {"a": 7, "b": 2, "c": "x", "t": True, "f": False, '"b"': 3, "b.c": 4}


def truth(text: str) -> object:
    return parse(text).condition(FACTS.get)


def complaint(text: str) -> str:
    with pytest.raises(RequestError) as caught:
        parse(text)
    assert caught.value.code == ErrorCode.SELECTOR_INVALID
    return caught.value.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column 1: expected a condition, found the end"),
        ("AND", "column 1: expected a condition, found 'AND'"),
        ("a =", "column 4: expected a value after '=', found the end"),
        ("a = AND b", "column 5: expected a value after '=', found 'AND'"),
        ("= 5", "column 1: expected a condition, found '='"),
        ("a = 5 b = 6", "column 7: expected AND, OR or the end after '5', found 'b'"),
        ("a = 5 AND", "column 10: expected a value after 'AND', found the end"),
        ("a = 5 OR OR b = 6", "column 10: expected a value after 'OR', found 'OR'"),
        ("a == 5", "column 3: '==' is not an operator; write '='"),
        ("a ! 5", "column 3: invalid character '!'"),
        ("a !== 5", "column 5: expected a value after '!=', found '='"),
        ("a != NULL", "column 6: NULL is valid only after IS or IS NOT"),
        ("5 != 'a'", "column 3: '!=' compares '5' with the string 'a', which has another type"),
        ("a # 5", "column 3: invalid character '#'"),
        ("a = 'x", "column 5: string without a closing '; write '' for ' inside a string"),
        ("a = 'x''", "column 5: string without a closing '; write '' for ' inside a string"),
        ('"a = 1', 'column 1: name without a closing "; write "" for " inside a name'),
        ('"" = 1', "column 1: a name must not be empty"),
        ("a = 5x", "column 5: '5x' is not a valid number"),
        ("a=7and b=2", "column 3: '7and' is not a valid number"),
        ("a = 1.2.3", "column 5: '1.2.3' is not a valid number"),
        ("a = 1e", "column 5: '1e' is not a valid number"),
        ("a = 0x1F", "column 5: '0x1F' is not a valid number"),
        (
            "a = 9223372036854775808",
            "column 5: 9223372036854775808 exceeds the limit of 9223372036854775807",
        ),
        ("a = 1e999", "column 5: 1e999 exceeds the limit of 1.7976931348623157e+308"),
        ("(a = 5", "column 7: expected ')' for the '(' in column 1 after '5', found the end"),
        ("((a = 5)", "column 9: expected ')' for the '(' in column 1 after ')', found the end"),
        ("a = 5)", "column 6: ')' has no matching '('"),
        ("()", "column 2: expected a value after '(', found ')'"),
        ("a BETWEEN 1", "column 12: expected AND and a second bound after '1', found the end"),
        ("a BETWEEN 1 OR 2", "column 13: expected AND and a second bound after '1', found 'OR'"),
        ("a BETWEEN 1 AND", "column 16: expected a value after 'AND', found the end"),
        ("a BETWEEN TRUE AND b", "column 11: BETWEEN compares numbers or strings, found 'TRUE'"),
        (
            "a BETWEEN 'a' AND 5",
            "column 19: 'BETWEEN' compares the string 'a' with '5', which has another type",
        ),
        (
            "'a' BETWEEN b AND 2",
            "column 19: 'BETWEEN' compares the string 'a' with '2', which has another type",
        ),
        (
            "a + 1 BETWEEN 'a' AND b",
            "column 15: 'BETWEEN' compares a number with the string 'a', which has another type",
        ),
        ("a NOT 5", "column 7: expected BETWEEN, IN or LIKE after 'NOT', found '5'"),
        ("a NOT = 5", "column 7: expected BETWEEN, IN or LIKE after 'NOT', found '='"),
        ("a IN 'x'", "column 6: expected '(' after 'IN', found the string 'x'"),
        ("a IN ()", "column 7: expected a string, a number or a name after '(', found ')'"),
        ("a IN ('x',)", "column 11: expected a string, a number or a name after ',', found ')'"),
        (
            "a IN ('x' 'y')",
            "column 11: expected ',' or ')' after the string 'x', found the string 'y'",
        ),
        ("a IN ('x'", "column 10: expected ',' or ')' after the string 'x', found the end"),
        ("a IN (TRUE)", "column 7: expected a string, a number or a name after '(', found 'TRUE'"),
        ("a IN (b + 1)", "column 9: expected ',' or ')' after 'b', found '+'"),
        ("a IN (-'x')", "column 8: expected a number after '-', found the string 'x'"),
        ("a IN (- -1)", "column 9: expected a number after '-', found '-'"),
        (
            "5 IN (5, 'x')",
            "column 10: 'IN' compares '5' with the string 'x', which has another type",
        ),
        (
            "a % 3 IN (-1, 'x')",
            "column 15: 'IN' compares a number with the string 'x', which has another type",
        ),
        (
            "'x' IN (a, -5)",
            "column 12: 'IN' compares the string 'x' with '-5', which has another type",
        ),
        ("TRUE IN (1)", "column 1: IN requires a number or a string, found 'TRUE'"),
        ("(a = 1) IN (1)", "column 1: IN requires a number or a string, found a condition"),
        ("a LIKE b", "column 8: expected a string after 'LIKE', found 'b'"),
        ("a LIKE 5", "column 8: expected a string after 'LIKE', found '5'"),
        ("a LIKE", "column 7: expected a string after 'LIKE', found the end"),
        ("'a' LIKE 'b'", "column 1: LIKE requires a name, found the string 'a'"),
        ("a + 1 LIKE 'b'", "column 1: LIKE requires a name, found a number"),
        (
            "a LIKE 'x' ESCAPE",
            "column 18: expected a string of one character after 'ESCAPE', found the end",
        ),
        (
            "a LIKE 'x' ESCAPE 'yz'",
            "column 19: ESCAPE requires one character, found the string 'yz'",
        ),
        ("a LIKE 'x' ESCAPE ''", "column 19: ESCAPE requires one character, found the string ''"),
        (
            "a LIKE 'x!y' ESCAPE '!'",
            "column 8: expected %, _ or '!' after the escape character '!', found 'y'",
        ),
        (
            "a LIKE 'x!' ESCAPE '!'",
            "column 8: expected %, _ or '!' after the escape character '!', found the end",
        ),
        ("a IS", "column 5: expected NULL or NOT NULL after 'IS', found the end"),
        ("a IS 5", "column 6: expected NULL or NOT NULL after 'IS', found '5'"),
        ("a IS NOT 5", "column 10: expected NULL after 'NOT', found '5'"),
        ("5 IS NULL", "column 1: IS NULL requires a name, found '5'"),
        ("(a = 1) IS NULL", "column 1: IS NULL requires a name, found a condition"),
        ("a = NULL", "column 5: NULL is valid only after IS or IS NOT"),
        ("NULL", "column 1: NULL is valid only after IS or IS NOT"),
        ("5", "column 1: expected a condition, found '5'"),
        ("'a'", "column 1: expected a condition, found the string 'a'"),
        ("-a", "column 1: expected a condition, found a number"),
        ("NOT 5", "column 5: expected a condition, found '5'"),
        ("NOT", "column 4: expected a value after 'NOT', found the end"),
        ("a AND 'x'", "column 7: expected a condition, found the string 'x'"),
        ("1 OR a", "column 1: expected a condition, found '1'"),
        ("a + 'x' > 1", "column 5: '+' requires numbers, found the string 'x'"),
        ("'x' * a > 1", "column 1: '*' requires numbers, found the string 'x'"),
        ("a % 'x' > 1", "column 5: '%' requires numbers, found the string 'x'"),
        ("a % TRUE = 1", "column 5: '%' requires numbers, found 'TRUE'"),
        ("% 2 = 1", "column 1: expected a condition, found '%'"),
        ("a % % 2 = 1", "column 5: expected a value after '%', found '%'"),
        ("TRUE + 1 = 2", "column 1: '+' requires numbers, found 'TRUE'"),
        ("-'x' = 1", "column 2: '-' requires numbers, found the string 'x'"),
        ("+TRUE = 1", "column 2: '+' requires numbers, found 'TRUE'"),
        ("(a = 1) + 1 = 2", "column 1: '+' requires numbers, found a condition"),
        ("a + 1", "column 1: expected a condition, found a number"),
        ("5 < 'x'", "column 3: '<' compares '5' with the string 'x', which has another type"),
        (
            "'x' >= a + 1",
            "column 5: '>=' compares the string 'x' with a number, which has another type",
        ),
        ("TRUE < a", "column 1: '<' compares numbers or strings, found 'TRUE'"),
        ("a <= FALSE", "column 6: '<=' compares numbers or strings, found 'FALSE'"),
        ("(a = 1) > 2", "column 1: '>' compares numbers or strings, found a condition"),
        ("(a = 1) = 2", "column 1: '=' compares values, found a condition"),
        ("a = (b = c)", "column 5: '=' compares values, found a condition"),
        ("a = b = c", "column 7: expected AND, OR or the end after 'b', found '='"),
        ("a < b < c", "column 7: expected AND, OR or the end after 'b', found '<'"),
        ("5 = 'a'", "column 3: '=' compares '5' with the string 'a', which has another type"),
        ("TRUE = 1", "column 6: '=' compares 'TRUE' with '1', which has another type"),
        (
            "a + 1 = 'x'",
            "column 7: '=' compares a number with the string 'x', which has another type",
        ),
        ("a = NOT b", "column 5: expected a value after '=', found 'NOT'"),
        ("a , b", "column 3: expected AND, OR or the end after 'a', found ','"),
        ("a * / b", "column 5: expected a value after '*', found '/'"),
        ("a = 1;", "column 6: invalid character ';'"),
        ("a = `x`", "column 5: invalid character '`'"),
    ],
)
def test_error_names_the_column_and_what_was_expected(text: str, said: str) -> None:
    assert complaint(text) == said


@pytest.mark.parametrize(
    ("text", "as_if"),
    [
        # Each result would be different if the operands were grouped the other way.
        ("t OR t AND f", "t OR (t AND f)"),
        ("f AND f OR t", "(f AND f) OR t"),
        ("NOT t AND f", "(NOT t) AND f"),
        ("NOT f OR t", "(NOT f) OR t"),
        ("NOT a = 8", "NOT (a = 8)"),
        ("NOT NOT t", "NOT (NOT t)"),
        ("a - b - 1 = 4", "(a - b) - 1 = 4"),
        ("a + b * 2 = 11", "a + (b * 2) = 11"),
        ("20 / b / 5 = 2", "(20 / b) / 5 = 2"),
        ("20 / b * 5 = 50", "(20 / b) * 5 = 50"),
        ("a % 4 * 2 = 6", "(a % 4) * 2 = 6"),
        ("b * 5 % 4 = 2", "(b * 5) % 4 = 2"),
        ("a + 9 % 4 = 8", "a + (9 % 4) = 8"),
        ("-a % 4 = -3", "(-a) % 4 = -3"),
        ("a % 4 IN (3) AND t", "((a % 4) IN (3)) AND t"),
        ("a - -b = 9", "a - (-b) = 9"),
        ("-a + b = -5", "(-a) + b = -5"),
        ("-a * -b = 14", "(-a) * (-b) = 14"),
        ("+-+a = -7", "+(-(+a)) = -7"),
        ("a = b + 5", "a = (b + 5)"),
        ("a > 5 AND b < 3", "(a > 5) AND (b < 3)"),
        ("a BETWEEN b AND b + 5 AND t", "(a BETWEEN b AND (b + 5)) AND t"),
        ("a + 1 BETWEEN 8 AND 8 AND t", "((a + 1) BETWEEN 8 AND 8) AND t"),
        ("NOT a BETWEEN 1 AND 2", "NOT (a BETWEEN 1 AND 2)"),
        ("NOT c IN ('y') AND t", "(NOT (c IN ('y'))) AND t"),
        ("t AND c IS NOT NULL", "t AND (c IS NOT NULL)"),
        ("NOT c LIKE 'y' ESCAPE '!' OR f", "(NOT (c LIKE 'y' ESCAPE '!')) OR f"),
    ],
)
def test_precedence(text: str, as_if: str) -> None:
    assert truth(text) is truth(as_if)
    assert truth(text) is (text != "NOT t AND f")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", True),
        ("f", False),
        ("TRUE", True),
        ("false", False),
        ("a", None),
        ("none", None),
        ("((t))", True),
        ("(a) = ((7))", True),
        ("(a + b) * 2 = 18", True),
        ("t = TRUE", True),
        ("t <> FALSE", True),
        ("TRUE = f", False),
        ("a > b", True),
        ("c = 'x'", True),
        ("'x' = c", True),
        ("c <> 'x'", False),
        ("b < a", True),
        ("b <= 1", False),
        ("a >= 7.0", True),
        ('b = "b"', False),
        ('"b" = 3', True),
        ("b.c = 4", True),
        ("c IN ('x', 'y')", True),
        ("c NOT IN ('x')", False),
        ("a IN (-7, +7, 'x')", True),
        ("a IN (-7)", False),
        ("a NOT IN ('x', 1)", True),
        ("(c) IN ('x')", True),
        ("c LIKE '_'", True),
        ("c NOT LIKE '%x'", False),
        ("c NOT LIKE 'x!%' ESCAPE '!'", True),
        ("none LIKE 'x'", None),
        ("none NOT LIKE 'x'", None),
        ("none NOT IN ('x')", None),
        ("none IS NULL", True),
        ("none IS NOT NULL", False),
        ("a IS NOT NULL", True),
        ("a NOT BETWEEN 1 AND 6", True),
        ("a NOT BETWEEN 1 AND 7", False),
        ("A = 7", None),
        ("a=7 and(b=2)", True),
        ("A\n=\t7", None),
        ("not f And t oR f", True),
        ("a / 0 = 1", None),
        ("c + 1 = 1", None),
        ("-c = 1", None),
        ("1 = 1", True),
        ("c > 1", False),
        ("c < c", False),
        ("NOT c > 1", True),
        ("c NOT BETWEEN 1 AND 2", False),
        ("t < t", None),
        ("NOT t < f", None),
        ("c <= c", True),
        ("c > 'w'", True),
        ("c < 'w'", False),
        ("'y' > c", True),
        ("c BETWEEN 'w' AND 'x'", True),
        ("c NOT BETWEEN 'w' AND 'x'", False),
        ("c BETWEEN a AND 'y'", False),
        ("none > 'x'", None),
        ("none BETWEEN 'a' AND 'b'", None),
        ("c BETWEEN none AND 'w'", False),
        ("c BETWEEN none AND 'y'", None),
        ("a != 8", True),
        ("a!=7", False),
        ("none != 7", None),
        ("c != 7", False),
        ("a % 4 = 3", True),
        ("a % 0 = 1", None),
        ("a % 0.0 = 1", None),
        ("none % 2 = 0", None),
        ("c % 2 = 0", None),
        ("a%b=1", True),
        ("a % 2.5 = 2", True),
        ("5 IN (5)", True),
        ("5 IN (6, 5.0)", True),
        ("5 NOT IN (6)", True),
        ("'x' IN ('x')", True),
        ("7 IN (b, a)", True),
        ("3 IN (b, a)", False),
        ("'x' IN (a, c)", True),
        ("a IN (c)", False),
        ("a IN (none, 7)", True),
        ("a IN (none, 8)", None),
        ("a NOT IN (none, 8)", None),
        ("a NOT IN (none, a)", False),
        ("none IN (none, a)", None),
        ("t IN (t)", True),
        ("t IN (a)", False),
        ("a * b IN (14)", True),
        ("a * none IN (14)", None),
        ('"b" IN (3)', True),
        ('3 IN ("b")', True),
        ("t IN (1)", False),
        ("a / 2 IN (3)", True),
        ("\fa\f=\f7\f", True),
    ],
)
def test_condition(text: str, expected: bool | None) -> None:
    assert truth(text) is expected


def test_names_are_looked_up_as_written_quoted_ones_with_their_quotes() -> None:
    text = """a.b > 5 AND "a b" = 'c' OR NOT d AND d BETWEEN e AND -f AND "g""h" IS NULL"""
    asked: set[str] = set()
    parsed = parse(text)
    assert parsed.condition(asked.add) is None
    assert asked == {"a.b", '"a b"', "d", "e", "f", '"g"h"'}


@pytest.mark.parametrize(
    ("text", "orders", "rests"),
    [
        ("a = b", 0, 0),
        ("a < 'b' OR 'b' < a OR a < 5", 0, 0),
        ("a + 1 < b", 0, 0),
        ("a < b OR NOT b >= a", 2, 0),
        ("a BETWEEN b AND c", 3, 0),
        ("a BETWEEN b AND 'c'", 1, 0),
        ("a % 2 = 1 AND b % c % 3 = 0", 0, 3),
        ("a / b = 2", 0, 0),
    ],
)
def test_expensive_parts_are_counted(text: str, orders: int, rests: int) -> None:
    parsed = parse(text)
    assert (parsed.orders, parsed.rests) == (orders, rests)


@pytest.mark.parametrize(
    ("opening", "inner", "closing", "levels"),
    [
        ("(", "t", ")", 1),
        ("NOT ", "t", "", 1),
        ("-", "a", " = 7", 1),
        ("+", "a", " = 7", 1),
        ("NOT(", "t", ")", 2),
        ("+ -", "a", " = 7", 2),
        ("-(", "a", ")", 2),
    ],
)
def test_nesting_has_a_limit(opening: str, inner: str, closing: str, levels: int) -> None:
    times = DEPTH_MAX // levels
    ends = closing * times if closing == ")" else closing
    end = " = 7" if opening == "-(" else ""
    assert truth(opening * times + inner + ends + end) is True
    said = complaint(opening * (times + 1) + inner + ends + closing + end)
    assert said.endswith("exceeds the limit of 32 nested levels")


def test_nesting_ends_where_it_closes() -> None:
    assert truth(" AND ".join(["NOT (NOT (a = -(-7)))"] * 60)) is True


@pytest.mark.parametrize("opening", ["(", "NOT ", "-", "+", "a=(", "NOT(", "a IN (", "a BETWEEN "])
def test_endless_text_is_refused(opening: str) -> None:
    assert complaint(opening * 100_000).endswith("characters exceeds the limit of 4096")
    assert complaint(opening * (TEXT_MAX // len(opening))).startswith("column ")


@pytest.mark.parametrize(
    ("sign", "first", "end"),
    [(" AND ", "t", ""), (" OR ", "t", ""), ("+", "1", "=256"), ("*", "1", "=1"), ("-", "1", "=1")],
)
def test_names_and_values_have_a_limit(sign: str, first: str, end: str) -> None:
    """A list of the maximum number of values is evaluated without a stack overflow."""
    count = TERMS_MAX - (1 if end else 0)
    assert truth(sign.join([first] * count) + end) in (True, False)
    over = complaint(sign.join([first] * (count + 1)) + end)
    assert over.endswith(": more than 256 names and values")


def test_patterns_count_as_values() -> None:
    assert truth(" OR ".join(["c LIKE 'x'"] * (TERMS_MAX // 2))) is True
    text = " OR ".join(["c LIKE 'x'"] * (TERMS_MAX // 2 + 1))
    assert complaint(text) == f"column {text.rindex('c LIKE') + 1}: more than 256 names and values"


def test_values_of_in_have_a_limit() -> None:
    assert truth(f"a IN ({','.join(['7'] * IN_MAX)})") is True
    text = f"a IN ({','.join(['7'] * (IN_MAX + 1))})"
    assert complaint(text) == f"column {text.rindex('7') + 1}: IN has more than 256 values"


def test_names_of_in_count_as_names() -> None:
    assert truth(f"a IN ({','.join(['b'] * (TERMS_MAX - 1))})") is False
    text = f"a IN ({','.join(['b'] * TERMS_MAX)})"
    assert complaint(text) == f"column {text.rindex('b') + 1}: more than 256 names and values"


WORDS = [
    *sorted(KEYWORDS),
    *"()=,+-*/%'\"\f",
    "<>",
    "!=",
    "<=",
    "a",
    "t",
    "'x'",
    '"b"',
    "5",
    "1e3",
    ".",
]


@given(st.text(max_size=80) | st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
@example("a IN (" * 600)
@example("\ud800")
@example("a = '\x00'")
@example("٣ = ٣")
def test_any_text_is_a_condition_or_refused_with_its_column(text: str) -> None:
    refused: RequestError | None = None
    try:
        condition = parse(text).condition
    except RequestError as error:
        refused = error
    if refused is None:
        assert condition(FACTS.get) in (True, False, None)
    else:
        assert refused.code == ErrorCode.SELECTOR_INVALID
        assert 1 <= int(refused.text.split(":")[0].removeprefix("column ")) <= len(text) + 1


@pytest.mark.parametrize("text", ["carrier == 'UA'", "carrier = = 'UA'"])
def test_two_equals_signs_are_explained(text: str) -> None:
    with pytest.raises(RequestError, match="column 9: '==' is not an operator; write '='"):
        parse(text)
