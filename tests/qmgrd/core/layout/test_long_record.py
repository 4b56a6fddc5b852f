"""Tests of records whose bytes are in body rows."""

import random

import pytest

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Fields, Uid
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys, long_record
from qmgrd.core.layout.long_record import VALUE_MAX_BYTES, Body, LongRecord
from tests.memory_store import MemoryStore

UID = Uid("QM1", 7)
TRAILER = records.encode_uid(UID)
ID = 9


def record(size: int, **fields: object) -> bytes:
    return records.encode(Fields(random.Random(size).randbytes(size), **fields))  # type: ignore[arg-type]


def stored(tx: MemoryStore, data: bytes) -> LongRecord:
    """Stores *data* in rows, and returns its record."""
    entries.write_rows(tx, ID, data, b"")
    tx.put(keys.unowned(ID), b"")
    start = data[: long_record.start_bytes(data)]
    checksum = int.from_bytes(data[records.CHECKSUM], "big")
    return LongRecord.of(start, Body(ID, len(data)), len(data), checksum)


@pytest.fixture
def tx() -> MemoryStore:
    store = MemoryStore()
    store.begin()
    return store


@pytest.mark.parametrize("spare", [0, 1, 11, 12, 13, 2_000])
def test_kept_record_equals_the_stamped_whole_record(tx: MemoryStore, spare: int) -> None:
    head = len(record(0))
    data = record(5 * VALUE_MAX_BYTES - head - spare)
    long = long_record.stamped(stored(tx, data), TRAILER)
    assert isinstance(long, LongRecord)
    assert long.keep(tx) == ID
    whole = records.stamp(data, UID)
    assert (len(long), long.checksum) == (len(whole), long_record.check(whole).checksum)
    assert long_record.read(tx, ID, 0, len(whole) + 1) == whole
    sizes = [len(row) for _, row in tx.scan(keys.SPACE_BODY, keys.SPACE_UNOWNED)]
    assert sizes[:-1] == [VALUE_MAX_BYTES] * (len(sizes) - 1)
    assert tx.get(keys.unowned(ID)) is None
    assert long.body.is_owned


def test_outline_is_read_like_the_record(tx: MemoryStore) -> None:
    fields = {"correlation_id": b"corr", "envelope": {"r": "REPLY"}, "group": (bytes(24), 3, True)}
    data = record(50_000, **fields, delay_ms=5)
    long = stored(tx, data)
    assert long_record.check(long) == records.check(data)
    assert records.delay_of(long, long.check()) == 5
    assert records.envelope_text(long, "r") == "REPLY"
    stamped = long.stamped(TRAILER)
    assert records.uid_of(stamped, 3) == UID
    assert records.trailer_of(stamped) == TRAILER
    assert records.own_bytes(stamped) == len(data)


def test_check_refuses_what_the_check_of_the_whole_record_refuses(tx: MemoryStore) -> None:
    long = stored(tx, record(50_000))
    long.checksum ^= 1
    with pytest.raises(RequestError) as caught:
        long.check()
    assert caught.value.code == ErrorCode.CHECKSUM_MISMATCH
    long.checksum ^= 1
    long.size += 1
    with pytest.raises(RequestError) as caught:
        long.check()
    assert caught.value.code == ErrorCode.RECORD_MALFORMED
    long.body.error = RequestError(ErrorCode.STORE_FULL, "full")
    with pytest.raises(RequestError, match="full"):
        long_record.check(long)


@pytest.mark.parametrize("envelope_bytes", [0, 10_000])
def test_opened_record_has_all_bytes_before_the_body(tx: MemoryStore, envelope_bytes: int) -> None:
    data = records.stamp(record(50_000, envelope={"x": "y" * envelope_bytes}), UID)
    entries.write_rows(tx, ID, data, TRAILER)
    long = long_record.opened(tx, ID, len(data), TRAILER)
    assert long is not None
    assert bytes(long[:]) == data[: long_record.start_bytes(data)] + TRAILER
    assert long.check() == records.check(data)


@pytest.mark.parametrize("lost", [0, 1, 13])
def test_record_without_a_row_of_its_outline_is_damaged(tx: MemoryStore, lost: int) -> None:
    data = records.stamp(record(50_000, envelope={"x": "y" * 5_000}), UID)
    entries.write_rows(tx, ID, data, TRAILER)
    tx.delete(keys.body(ID, lost))
    assert long_record.opened(tx, ID, len(data), TRAILER) is None
    assert long_record.opened(tx, ID, len(data) + 1, TRAILER) is None


def test_sizes_of_an_entry_and_of_its_rows_must_agree(tx: MemoryStore) -> None:
    data = records.stamp(record(50_000), UID)
    entries.write_rows(tx, ID, data, TRAILER)
    assert long_record.opened(tx, ID, len(data) - 1, TRAILER) is None
    assert long_record.opened(tx, ID, len(data), b"other" + bytes(8)) is None
