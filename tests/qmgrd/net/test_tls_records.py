"""Records of TLS are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.net.tls_records import (
    EMPTY_EVERY_BYTES,
    EMPTY_MAX,
    HANDSHAKE_RECORDS_MAX,
    SLICE_RECORDS,
    TlsRecords,
)


def record(size: int) -> bytes:
    return b"\x17\3\3" + size.to_bytes(2, "big") + bytes(size)


@given(st.lists(st.integers(1, 300), max_size=100), st.lists(st.integers(1, 400), min_size=1))
def test_slices_are_the_data_and_end_with_a_record(sizes: list[int], cuts: list[int]) -> None:
    """Each record is counted once, also if it arrives in several pieces."""
    data, records, at = b"".join(map(record, sizes)), TlsRecords(), 0
    found: list[bytes] = []
    while at < len(data):
        for cut in cuts:
            found += records.slices(data[at : at + cut])
            at += cut
    assert b"".join(found) == data
    assert records._records == len(sizes)


@pytest.mark.parametrize("count", [1, SLICE_RECORDS, SLICE_RECORDS + 1, 5 * SLICE_RECORDS])
def test_slice_has_few_records(count: int) -> None:
    found = list(TlsRecords().slices(record(20) * count))
    assert [len(part) // 25 for part in found] == [
        min(SLICE_RECORDS, count - at) for at in range(0, count, SLICE_RECORDS)
    ]


def test_no_data_is_one_slice() -> None:
    assert list(TlsRecords().slices(b"")) == [b""]


def test_records_without_data_have_a_limit_that_grows_with_the_data() -> None:
    records = TlsRecords()
    list(records.slices(record(20) * EMPTY_MAX))
    assert records.carried(0, 0)
    list(records.slices(record(20)))
    assert not records.carried(0, 0)
    list(records.slices(record(20)))
    assert records.carried(1, EMPTY_EVERY_BYTES)


def test_records_of_the_handshake_do_not_count() -> None:
    records = TlsRecords()
    for _ in range(HANDSHAKE_RECORDS_MAX):
        assert records.skip(record(20))
    assert records.carried(0, 0)


def test_records_of_the_handshake_have_a_limit() -> None:
    records = TlsRecords()
    assert records.skip(record(20) * HANDSHAKE_RECORDS_MAX)
    assert not records.skip(record(20))


def test_flood_of_handshake_records_is_not_followed_to_its_end() -> None:
    flood = record(0) * 100 * HANDSHAKE_RECORDS_MAX
    records = TlsRecords()
    assert not records.skip(flood)
    assert records._handshake_records <= HANDSHAKE_RECORDS_MAX + SLICE_RECORDS
