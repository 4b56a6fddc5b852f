"""Tests that the index rows of a message depend only on its contents."""

import pytest

from qmgr_protocol import record as records
from qmgr_protocol.record import Fields
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys

GROUP = b"g" * 24


def front(**fields: object) -> bytes:
    return records.encode(Fields(b"body", **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("correlation_id", [b"", b"c", b"c" * 64])
@pytest.mark.parametrize("group", [None, (GROUP, 3, False), (GROUP, 3, True)])
@pytest.mark.parametrize("delay_ms", [0, 5])
def test_record_has_its_selection_keys(
    correlation_id: bytes, group: tuple[bytes, int, bool] | None, delay_ms: int
) -> None:
    data = front(correlation_id=correlation_id, group=group, delay_ms=delay_ms)
    assert index.selected_by(data) == (correlation_id, None if group is None else group[:2])


@pytest.mark.parametrize("length", range(0, 70, 7))
def test_truncated_record_has_no_selection_keys_beyond_its_contents(length: int) -> None:
    data = front(correlation_id=b"c", group=(GROUP, 3, False))[:length]
    correlation_id, group = index.selected_by(data)
    assert b"c".startswith(correlation_id)
    assert group in (None, (GROUP, 3))


def test_index_key_ends_with_the_place() -> None:
    data = front(correlation_id=b"c", group=(GROUP, 3, False))
    place = bytes([9 - 4]) + (77).to_bytes(8, "big")
    assert index.correlation_key(1, data, 4, 77) == keys.correlation(1, b"c") + place
    assert index.correlation_key(1, front(), 4, 77) == b""


def test_correlation_ids_with_a_common_prefix_are_distinct() -> None:
    """Otherwise, a search for c would also find cc."""
    short, long = keys.correlation(1, b"c"), keys.correlation(1, b"cc")
    assert not long.startswith(short)


def test_entry_shows_whether_it_is_due_and_noted() -> None:
    entry = entries.Entry(entries.INLINE, 0, 0, 0, 0, 0, 0, "", front())
    assert index.timed_keys(1, entry, keys.LANE_READY, 4, 77) == []
    due = entry._replace(due_ms=5, flags=entries.NOTED)
    found = index.timed_keys(1, due, keys.LANE_DELAYED, 4, 77)
    assert found == [keys.due(5, 1, keys.LANE_DELAYED, 4, 77), keys.note(1, 77)]
