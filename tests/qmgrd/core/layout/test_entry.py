"""Tests of entries, which are the daemon's data before a record, and of rows of long records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import record

TRAILER = b"QM1" + (7).to_bytes(8, "big")


def stored(body: bytes, target: bytes = b"") -> bytes:
    return entries.encode_head(123, target) + record(body, uid=("QM1", 7))


def in_rows(target: bytes = b"") -> bytes:
    head = entries.encode_head(123, target)
    return head[:1] + bytes([entries.IN_ROWS]) + head[2:]


@given(st.binary(max_size=100), st.sampled_from([b"", b"Q", b"x" * 64]))
def test_decode_reads_what_was_encoded(body: bytes, target: bytes) -> None:
    entry = entries.decode(stored(body, target))
    assert entry.rest == record(body, uid=("QM1", 7))
    assert (entry.flags, entry.put_us, entry.target) == (entries.INLINE, 123, target.decode())
    assert (entry.hops, entry.delivered, entry.failed, entry.due_ms) == (0, 0, 0, 0)
    assert entries.uid_trailer(entry) == TRAILER


def test_encode_writes_what_was_decoded() -> None:
    value = stored(b"x", b"TARGET")
    entry = entries.decode(value)
    assert entries.encode(entry) == value
    changed = entry._replace(
        flags=entries.NOTED | entries.VOLATILE,
        hops=3,
        delivered=2,
        failed=1,
        expires_ms=9,
        due_ms=8,
    )
    assert entries.decode(entries.encode(changed)) == changed
    assert (changed.noted, changed.volatile, changed.in_rows) == (True, True, False)


def test_counts_stop_at_their_width() -> None:
    assert (entries.raised_count(7, True), entries.raised_count(7, False)) == (8, 7)
    assert entries.raised_count(0xFFFF, True) == 0xFFFF


@pytest.mark.parametrize(
    ("size", "rows"), [(24, 0), (3904, 0), (3905, 1), (4000, 1), (4001, 2), (4 << 20, 1049)]
)
def test_number_of_rows(size: int, rows: int) -> None:
    assert entries.rows_of(size) == rows


def test_largest_inline_entry_is_within_the_longest_value() -> None:
    """The limit holds even for an entry with the longest target."""
    longest = next(size for size in range(4000, 0, -1) if entries.rows_of(size) == 0)
    assert entries.HEAD_BYTES + 64 + longest == entries.VALUE_MAX_BYTES


@pytest.mark.parametrize("size", [4_000, 8_000, 12_001, 100_000])
def test_long_record_comes_back_from_its_rows(size: int) -> None:
    tx = MemoryStore()
    long = record(b"\xa5" * size, uid=("QM1", 7))
    entry = entries.decode(in_rows(b"T") + entries.write_rows(tx, 9, long, TRAILER))
    assert max(map(len, tx.rows.values())) <= entries.VALUE_MAX_BYTES
    assert entries.record(tx, entry) == long
    assert entries.record_bytes(entry) == len(long)
    assert entries.uid_trailer(entry) == TRAILER
    assert entries.delete_rows(tx, entry) == entries.rows_of(len(long))
    assert not tx.rows


def test_record_with_a_row_missing_is_short_not_wrong() -> None:
    tx = MemoryStore()
    long = record(b"\xa5" * 10_000, uid=("QM1", 7))
    entry = entries.decode(in_rows() + entries.write_rows(tx, 9, long, TRAILER))
    tx.delete(keys.body(9, 1))
    assert len(entries.record(tx, entry)) == len(long) - entries.VALUE_MAX_BYTES


def test_inline_entry_has_no_rows_to_delete() -> None:
    assert entries.delete_rows(MemoryStore(), entries.decode(stored(b"x"))) == 0


def test_bytes_of_an_entry() -> None:
    """Each byte matches the drawing in entry.py. A change of the format needs a new version."""
    expected = "02 00 00 01 0000 0000 000000000000007b" + "00" * 16 + "51"
    assert entries.encode_head(123, b"Q") == bytes.fromhex(expected)
