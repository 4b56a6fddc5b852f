"""Tests of history rows as Arrow batches. Expanding by column or by row gives the same result."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import history
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.history import Happening, HistoryMalformed, Open
from qmgr_tables.row import TIME_END_US
from qmgr_tables.tables import history_batch
from qmgr_tables.tables.history_batch import SCHEMA, HistorySource, batches, events_in
from tests.qmgrd.core.past import tell

SOURCE = HistorySource("QM1", "5" * 32, "20260101-000000-1")
AT_US = 1_700_000_000_000_000


def uid(origin: bytes, timestamp: int) -> bytes:
    return origin + timestamp.to_bytes(8, "big")


def row_of(*sections: Open, turn: int = 7) -> bytes:
    (data,) = history.encode(turn, 1_000, sections)
    return data


def rows(data: list[tuple[int, bytes]], **options: Any) -> list[dict[str, Any]]:
    return [row for batch in batches(data, SOURCE, **options) for row in batch.to_pylist()]


some = st.none() | st.integers(0, 2**31 - 1)
happenings = st.builds(
    lambda arrival, priority, origin, timestamp, *rest: (
        arrival,
        priority,
        uid(origin, timestamp),
        *rest,
    ),
    st.integers(1, 2**62),
    st.integers(0, 9),
    st.sampled_from([b"", b"A", b"NYC", b"LONG-NAME"]),
    st.integers(0, 2**64 - 1),
    st.none() | st.integers(0, 2**40),
    some,
    some,
    st.none() | st.integers(0, 2**40),
)
heads = st.tuples(
    st.sampled_from(range(len(history.EVENTS))),
    st.integers(AT_US, AT_US + 10**9),
    st.sampled_from(["Q", "@NYC", "SYSTEM.X"]),
    st.integers(1, 9),
    st.sampled_from(["", "app"]),
    st.sampled_from(["", "DEAD"]),
    st.sampled_from([0, 410, 9_999]),
)
sections = st.builds(Open, heads, st.lists(happenings, min_size=1, max_size=9))


@given(st.lists(st.lists(sections, min_size=1, max_size=4), min_size=1, max_size=3))
def test_columns_say_what_is_reported_one_by_one(written: list[list[Open]]) -> None:
    data: list[tuple[int, bytes]] = []
    for turn, held in enumerate(written):
        data += enumerate(history.encode(turn, 1_000, held), 1 + len(data))
    told = [one for seq, row in data for one in tell(seq, row)]
    found = rows(data)
    assert len(found) == len(told) == sum(events_in(row) for _, row in data)
    for row, one in zip(found, told, strict=True):
        is_known = not one.message_id.startswith("None.")
        assert row["event"] == one.event
        assert row["message_id"] == (one.message_id if is_known else None)
        assert (row["queue"], row["queue_id"]) == (one.queue, one.queue_id)
        assert (row["arrival"], row["priority"]) == (one.arrival, one.priority)
        assert (row["record_bytes"], row["delivered"]) == (one.size, one.delivered)
        assert (row["failed"], row["seq"]) == (one.failed, one.seq)
        assert (row["peer"] or "", row["target"] or "") == (one.peer, one.target)
        assert int(row["at"].timestamp() * 1_000_000) == pytest.approx(one.at_us, abs=1)
        assert (row["put_at"] is None) == (one.age_us is None)


def test_events_of_a_row_are_numbered_through() -> None:
    put = Open(
        (history.PUT, AT_US, "Q", 1, "", "", 0),
        [(arrival, 4, uid(b"QM1", AT_US + arrival), 300, 0, 0, 0) for arrival in range(1, 4)],
    )
    gone = Open(
        (history.EXPIRED, AT_US + 5, "Q", 1, "", "", ErrorCode.MESSAGE_EXPIRED),
        [(2, 4, uid(b"QM1", AT_US + 2), 300, 1, 0, 5)],
    )
    found = rows([(11, row_of(put, gone)), (12, row_of(gone))])
    assert [(row["seq"], row["number"]) for row in found] == [
        (11, 1),
        (11, 2),
        (11, 3),
        (11, 4),
        (12, 1),
    ]
    assert [row["arrival"] for row in found] == [1, 2, 3, 2, 2]
    assert found[3]["code"] == "MESSAGE_EXPIRED"
    assert found[0]["code"] is None
    assert found[3]["put_at"] == found[0]["at"]
    assert found[0]["created_at"].microsecond == 1
    assert {row["turn"] for row in found} == {7}
    assert {(row["queue_manager"], row["store_id"], row["snapshot_id"]) for row in found} == {
        SOURCE
    }


def test_number_of_an_event_does_not_depend_on_what_is_wanted() -> None:
    one = Open((history.PUT, AT_US, "A", 1, "", "", 0), [happening(1), happening(2)])
    two = Open((history.PUT, AT_US, "B", 2, "", "", 0), [happening(1)])
    found = rows([(1, row_of(one, two))], wants=lambda section: section.queue == "B")
    assert [(row["queue"], row["number"]) for row in found] == [("B", 3)]


def happening(arrival: int) -> Happening:
    return arrival, 4, uid(b"QM1", AT_US), 300, 0, 0, 0


def test_timestamps_that_are_no_times_are_reported_in_the_uid_alone() -> None:
    odd: list[Happening] = [
        (1, 4, uid(b"ELSE", 2**64 - 1), 1, 0, 0, None),
        (2, 4, uid(b"ELSE", TIME_END_US), 1, 0, 0, None),
        (3, 4, uid(b"", 0), None, None, None, None),
    ]
    found = rows([(1, row_of(Open((history.DAMAGED, AT_US, "Q", 1, "", "", 0), odd)))])
    assert [row["message_id"] for row in found] == [
        f"ELSE.{2**64 - 1}",
        f"ELSE.{TIME_END_US}",
        None,
    ]
    assert [row["created_at"] for row in found] == [None, None, None]
    assert found[2]["origin"] is None
    assert found[2]["put_at"] is None


def test_batches_have_the_very_schema_and_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_batch, "BATCH_ROWS", 10)
    data = row_of(Open((history.PUT, AT_US, "Q", 1, "", "", 0), [happening(i) for i in range(6)]))
    found = list(batches([(seq, data) for seq in range(1, 6)], SOURCE))
    assert [batch.num_rows for batch in found] == [12, 12, 6]
    for batch in found:
        assert batch.schema.equals(SCHEMA, check_metadata=True)
        batch.validate(full=True)
    some = pa.schema([SCHEMA.field("number"), SCHEMA.field("event")])
    (batch,) = batches([(1, data)], SOURCE, some)
    assert batch.schema == some
    assert batch.num_rows == 6
    assert list(batches([], SOURCE)) == []
    assert list(batches([(1, data)], SOURCE, wants=lambda _: False)) == []


EMPTY = [0, AT_US, "Q", 1, "", "", 0, 0, *[1] * 8]  # This section has no messages.


@pytest.mark.parametrize("data", [b"", b"\xc1", pack([2, 1, 1]), pack([1, 7, 0, EMPTY])])
def test_invalid_row_is_named(data: bytes) -> None:
    with pytest.raises(HistoryMalformed, match=r"^row 9 of history: "):
        rows([(9, data)])


@pytest.mark.parametrize("column", ["one", [1, "two"], {}, 2**70])
def test_column_that_holds_something_else_is_named(column: Any) -> None:
    section = [0, AT_US, "Q", 1, "", "", 0, 2, [1], 4, "QM1", [5], 300, 0, 0, 0]
    section[10 if column == 2**70 else 12] = column if column != 2**70 else [["x"], None]
    with pytest.raises(HistoryMalformed, match="history"):
        rows([(9, bytes(pack([1, 7, 0, section])))])
