"""Tests of options that select queues and rows."""

import pytest

from qmgr_tables.filters import Filters
from qmgr_tables.options import Options


def test_queue_is_wanted_if_listed_and_matched_as_a_whole() -> None:
    assert Options(("/",)).wants("ANY")
    listed = Options(("/",), queues=frozenset(["A", "AB"]), queues_pattern="A.")
    assert [listed.wants(queue) for queue in ("A", "AB", "ABC", "B")] == [False, True, False, False]


def test_row_is_wanted_between_since_and_until() -> None:
    some = Options(("/",), since_us=10, until_us=20)
    assert [some.wants_time(us) for us in (9, 10, 19, 20, None)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert Options(("/",)).wants_time(None)
    less = some._replace(filters=Filters(since_us=15, until_us=30))
    assert [less.wants_time(us) for us in (14, 15, 19, 20)] == [False, True, True, False]


def test_what_the_query_asks_holds_beside_the_options() -> None:
    asked = Options(("/",), queues=frozenset("AB"), states=frozenset(["ready", "delayed"]))
    asked = asked._replace(filters=Filters(queues=frozenset("BC"), states=frozenset(["ready"])))
    assert [asked.wants(queue) for queue in "ABC"] == [False, True, False]
    assert [asked.wants_state(state) for state in ("ready", "delayed")] == [True, False]
    assert asked.wants_row("ready", 5)
    assert not asked.wants_row("delayed", 5)


def test_pattern_that_would_take_for_ever_does_not() -> None:
    options = Options(("/",), queues_pattern="(A+)+B")
    assert not options.wants("A" * 64)
    assert options.wants("A" * 63 + "B")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("(?!SYSTEM).*", {"A", "AB"}),
        ("A|AB", {"A", "AB"}),
        ("(?i)a.", {"AB"}),
        ("A$", {"A"}),
        (r"SYSTEM\.\w+\Z", {"SYSTEM.EVENTS"}),
        ("B", set()),
        (r"(.)\1", set()),
    ],
)
def test_pattern_is_held_against_the_whole_name(pattern: str, names: set[str]) -> None:
    options = Options(("/",), queues_pattern=pattern)
    assert {name for name in ("A", "AB", "SYSTEM.EVENTS") if options.wants(name)} == names
