import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.selector.condition import Truth
from qmgrd.core.selector.pattern import LIKE_TEXT_MAX, PatternInvalid, like, steps
from qmgrd.core.selector.value import Value, fact


def ask(value: Value | None, pattern: str, escape: str = "") -> Truth:
    return like(fact("a"), pattern, escape)({"a": value}.get)


def plain(text: str, pattern: str) -> bool:
    """Matches according to the definition, character by character, with a table."""
    reached = {0}
    for sign in pattern:
        if sign == "%":
            reached = set(range(min(reached, default=len(text) + 1), len(text) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(text) and sign in ("_", text[at])}
    return len(text) in reached


@pytest.mark.parametrize(
    ("text", "pattern", "truth"),
    [
        ("123", "12%3", True),
        ("12993", "12%3", True),
        ("1234", "12%3", False),
        ("lose", "l_se", True),
        ("loose", "l_se", False),
        ("", "", True),
        ("a", "", False),
        ("", "%", True),
        ("", "_", False),
        ("abc", "%%", True),
        ("abc", "ABC", False),
        ("a\nb", "a_b", True),
        ("a\nb", "a%b", True),
        ("ab\n", "ab", False),
        ("aXbXc", "a%X_", True),
        ("aab", "%ab", True),
        ("aba", "a%a", True),
        ("a", "a%a", False),
        ("abab", "%ab", True),
        ("ab", "%ab%ab", False),
        ("xaybz", "%a%b%", True),
        ("xbyaz", "%a%b%", False),
        (".*", ".*", True),
        ("ab", ".*", False),
        ("[a]", "[a]", True),
        ("ü€", "__", True),
        ("a b", "a b", True),
        ("axxb_cyyd", "a%b_c%d", True),
    ],
)
def test_like(text: str, pattern: str, truth: bool) -> None:
    assert ask(text, pattern) is truth


@pytest.mark.parametrize(
    ("text", "pattern", "escape", "truth"),
    [
        ("_foo", r"\_%", "\\", True),
        ("bar", r"\_%", "\\", False),
        ("100%", "100!%", "!", True),
        ("1000", "100!%", "!", False),
        ("a!b", "a!!b", "!", True),
        ("%", "%%", "%", True),
        ("a%", "_%%", "%", True),
        ("_", "__", "_", True),
        ("a", "__", "_", False),
    ],
)
def test_escape(text: str, pattern: str, escape: str, truth: bool) -> None:
    assert ask(text, pattern, escape) is truth


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("a!b", "expected %, _ or '!' after the escape character '!', found 'b'"),
        ("a!", "expected %, _ or '!' after the escape character '!', found the end"),
        ("!!!", "expected %, _ or '!' after the escape character '!', found the end"),
    ],
)
def test_escape_precedes_the_escaped_sign(pattern: str, complaint: str) -> None:
    with pytest.raises(PatternInvalid, match=f"^{re.escape(complaint)}$"):
        ask("a", pattern, "!")


@pytest.mark.parametrize(("value", "truth"), [(None, None), (1, False), (True, False)])
def test_value_that_is_not_a_text_does_not_match(value: Value | None, truth: Truth) -> None:
    assert ask(value, "%") is truth


def test_long_text_is_unknown() -> None:
    assert ask("a" * LIKE_TEXT_MAX, "%") is True
    assert ask("a" * (LIKE_TEXT_MAX + 1), "%") is None


@given(st.text("ab_", max_size=12), st.text("ab%_", max_size=10))
def test_like_matches_its_definition(text: str, pattern: str) -> None:
    assert ask(text, pattern) is plain(text, pattern)


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=2), st.text("ab", max_size=40))
def test_pieces_are_found_in_sequence(pieces: list[str], text: str) -> None:
    for pattern in ("%".join(pieces), f"%{'%'.join(pieces)}%", "_%".join(pieces)):
        assert ask(text, pattern) is plain(text, pattern)
        assert ask("".join(pieces), pattern) is plain("".join(pieces), pattern)


@given(st.text("a%_!", max_size=8), st.text("a%_!", max_size=8))
def test_escaped_signs_stand_for_themselves(text: str, other: str) -> None:
    escaped = re.sub("([%_!])", r"!\1", text)
    assert ask(text, escaped, "!") is True
    assert ask(other, escaped, "!") is (other == text)
    assert ask(f"x{text}y{other}", f"x%{escaped}%y_%", "!") is ("y" in f"y{other}"[:-1])


def test_long_pieces_take_few_steps_and_those_with_signs_one_per_character() -> None:
    assert steps("foo%bar") == steps("%") == steps("_" * 1_000) == 1
    assert steps("%foo%") < 4
    assert steps("%" + "a" * 250 + "%") < 130
    assert 2_000 < steps("%" + "_a" * 500 + "%") < 2_100
    assert steps("%" + "!_a" * 500 + "%", "!") < 520
    assert 50 < steps("%a" * 2_000 + "%") < 100


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "pattern", ["%a" * 2_000 + "%b", "%a_" * 1_300 + "b", "%" + "a" * 2_000 + "_b%", "a%" * 2_000]
)
def test_many_signs_on_a_long_text_are_fast(pattern: str) -> None:
    """If each % were tried at each position, the first match would practically never end."""
    assert ask("a" * LIKE_TEXT_MAX, pattern) is pattern.endswith("%a%")
