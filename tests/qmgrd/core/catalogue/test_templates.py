"""Tests that patterns match names, and that one of the matching templates applies."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.templates import Template, Templates, check_pattern, fits

PATTERNS = st.text("AB.*", min_size=1, max_size=8)
NAMES = st.text("AB.", min_size=1, max_size=8)


def expression(pattern: str) -> str:
    return ".*".join(map(re.escape, pattern.split("*")))


@given(PATTERNS, NAMES)
def test_pattern_fits_what_a_regular_expression_would(pattern: str, name: str) -> None:
    assert fits(pattern, name) == bool(re.fullmatch(expression(pattern), name))


def test_pattern_that_a_regular_expression_would_never_end_on() -> None:
    assert not fits("*A" * 31 + "*B", "A" * 64)
    assert fits("*A" * 31 + "*B", "A" * 63 + "B")


@pytest.mark.parametrize("pattern", ["*", "*.LETTERS", "S*", "SYS*"])
def test_what_is_meant_for_all_is_not_for_system_queues(pattern: str) -> None:
    assert not fits(pattern, "SYSTEM.DEAD.LETTERS")
    assert fits("SYSTEM.*", "SYSTEM.DEAD.LETTERS")
    assert fits(pattern, "SLETTERS.LETTERS") == (pattern != "SYS*")


@given(st.sets(PATTERNS, max_size=12), st.data())
def test_template_in_force_is_the_most_specific_one_that_fits(
    patterns: set[str], data: st.DataObject
) -> None:
    templates = Templates()
    for pattern in patterns:
        templates.add(Template(pattern, {}))
    for pattern in data.draw(st.sets(st.sampled_from(sorted(patterns)))) if patterns else ():
        templates.remove(pattern)
        patterns = patterns - {pattern}
    name = data.draw(NAMES)
    best = sorted((p for p in patterns if fits(p, name)), key=lambda p: (-len(p) + p.count("*"), p))
    found = templates.of(name)
    assert (found.pattern if found else None) == (best[0] if best else None)
    assert [template.pattern for template in templates] == sorted(patterns)
    assert len(templates) == len(patterns)


@pytest.mark.parametrize("text", ["*", "APP.*", "*.DLQ", "Q", "a*b*c", "*" * 64])
def test_valid_pattern_is_accepted(text: str) -> None:
    check_pattern(text)


@pytest.mark.parametrize("text", ["", "a b", "A@B", "*@NYC", "x" * 65, "APP.?", "a\n", "ü*"])
def test_invalid_pattern_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(RequestError, match="is not a valid pattern") as caught:
        check_pattern(text)
    assert caught.value.code is ErrorCode.NAME_INVALID
    assert caught.value.text.isprintable()
