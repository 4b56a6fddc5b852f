"""Tests that rows of history are short and exact, and that invalid rows are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import history
from qmgr_protocol.codec import pack
from qmgr_protocol.history import HistoryMalformed, Open, Section

COUNTS = st.integers(0, 2**16 - 1)
HAPPENINGS = st.tuples(
    st.integers(1, 2**63 - 1),
    st.integers(0, 9),
    st.tuples(st.sampled_from([b"NYC", b"JFK", b"o" * 64]), st.integers(0, 2**63 - 1)).map(
        lambda uid: uid[0] + uid[1].to_bytes(8, "big")
    ),
    st.none() | st.integers(0, 2**32),
    st.none() | COUNTS,
    st.none() | COUNTS,
    st.none() | st.integers(0, 2**50),
)
HEADS = st.tuples(
    st.integers(0, len(history.EVENTS) - 1),
    st.integers(0, 2**60),
    st.text(max_size=40),
    st.integers(1, 2**32 - 1),
    st.text(max_size=40),
    st.text(max_size=40),
    st.integers(0, 9999),
)
SECTIONS = st.builds(Open, HEADS, st.lists(HAPPENINGS, min_size=1, max_size=60))


def told(section: Section) -> list[tuple[object, ...]]:
    columns = [history.values(column, section.messages) for column in section[8:]]
    return list(zip(*columns, strict=True))


def expected(section: Open) -> list[tuple[object, ...]]:
    return [
        (arrival, priority, uid[:-8].decode(), int.from_bytes(uid[-8:], "big"), *rest)
        for arrival, priority, uid, *rest in section.happenings
    ]


@given(st.lists(SECTIONS, min_size=1, max_size=5), st.integers(0, 2**60), st.integers(0, 2**60))
def test_written_values_are_read_back(sections: list[Open], turn: int, clock_ms: int) -> None:
    rows = history.encode(turn, clock_ms, sections)
    assert all(len(row) <= history.ROW_MAX_BYTES for row in rows)
    found: list[tuple[object, tuple[object, ...]]] = []
    for row in map(history.decode, rows):
        assert (row.turn, row.clock_ms) == (turn, clock_ms)
        found += [(one[:7], what) for one in row.sections for what in told(one)]
    assert found == [(one.head, what) for one in sections for what in expected(one)]


def test_equal_values_are_stored_briefly() -> None:
    happenings: list[history.Happening] = [
        (1_000 + n, 4, b"NYC" + (10**15 + n).to_bytes(8, "big"), 256, 0, 0, 0) for n in range(500)
    ]
    (row,) = history.encode(1, 2, [Open((history.PUT, 3, "Q", 1, "", "", 0), happenings)])
    assert len(row) < 60
    (section,) = history.decode(row).sections
    assert section.arrivals == [1_000]
    assert section.sizes == 256
    assert told(section)[499][:4] == (1_499, 4, "NYC", 10**15 + 499)


def test_long_batch_is_several_sections() -> None:
    head, count = (history.PUT, 3, "Q", 1, "", "", 0), 4 * history.MESSAGES_MAX + 3
    columns = (tuple(range(count)), 4, "NYC", tuple(range(9, 9 + count)), 256, 0, 0, 0)
    (row,) = history.encode(1, 2, history.packed(head, count, columns))
    sections = history.decode(row).sections
    assert max(section.messages for section in sections) <= history.MESSAGES_MAX
    assert [arrival for section in sections for arrival, *_ in told(section)] == list(range(count))


def test_one_message_is_no_run() -> None:
    one: history.Happening = (7, 4, b"A" + bytes(8), 3, None, None, None)
    (row,) = history.encode(1, 2, [Open((0, 0, "Q", 1, "", "", 0), [one])])
    (section,) = history.decode(row).sections
    assert (section.arrivals, section.ages_us) == (7, None)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (b"", "not a valid row of history"),
        (pack(7), "not a valid row of history"),
        (pack([]), "not a valid row of history"),
        (pack([2, 1, 1]), "unknown version 2; only version 1 is supported"),
        (pack([1, 1, 1, [0, 1]]), "not a valid row of history"),
        (pack([1, 1, 1, [99, 1, "Q", 1, "", "", 0, 1, *[0] * 8]]), "invalid section: kind 99"),
        (pack([1, 1, 1, [0, 1, "Q", 1, "", "", 0, 0, *[0] * 8]]), "with 0 messages"),
        (pack([1, 1, 1, [0, 1, "Q", 1, "", "", 0, 10**15, [1], *[0] * 7]]), "with 10000000000"),
        (
            pack([1, 1, 1, [0, 1, "Q", 1, "", "", 0, 3, [1, 2], *[0] * 7]]),
            "arrivals has 2 values for 3",
        ),
    ],
)
def test_invalid_row_is_refused(row: bytes, why: str) -> None:
    with pytest.raises(HistoryMalformed, match=why):
        history.decode(row)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.integers(0, 20) | ANYTHING


@given(st.lists(FIELDS, min_size=16, max_size=16), ANYTHING, ANYTHING)
def test_what_is_bent_is_refused_or_can_be_read(
    fields: list[object], turn: object, clock_ms: object
) -> None:
    row = bytes(pack([history.VERSION, turn, clock_ms, fields]))
    try:
        found = history.decode(row)
    except HistoryMalformed:
        return
    for section in found.sections:
        told(section)


@pytest.mark.parametrize(
    "change", [{2: 5}, {0: 99}, {7: 0}, {7: 2**60}, {8: ["x"]}, {9: [1, 2, 3]}, {0: "0"}, {1: None}]
)
def test_section_that_is_wrong_is_refused(change: dict[int, object]) -> None:
    fields: list[object] = [0, 1, "Q", 1, "", "", 0, 2, [1], 4, "NYC", [5], 10, 0, 0, 0]
    assert history.decode(bytes(pack([1, 1, 1, fields]))).sections
    for at, value in change.items():
        fields[at] = value
    with pytest.raises(HistoryMalformed):
        history.decode(bytes(pack([1, 1, 1, fields])))
