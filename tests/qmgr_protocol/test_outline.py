"""Tests of the outline of a record."""

import pytest

from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.outline import Outline
from qmgr_protocol.record import Fields, Uid

UID = Uid("QM1", 8)


def outline_of(record: bytes) -> Outline:
    head = records.check(record)
    start = len(record) - head.body_length - (head.origin_length + 8 if head.origin_length else 0)
    outline = Outline(record[:start] + record[start + head.body_length :])
    outline.size, outline.checksum = len(record), head.checksum
    return outline


@pytest.mark.parametrize("uid", [None, UID])
def test_outline_is_read_like_its_record(uid: Uid | None) -> None:
    record = records.encode(Fields(bytes(100_000), 7, b"c", {"r": "REPLY"}, uid=uid))
    outline = outline_of(record)
    assert len(outline) == len(record)
    assert records.check(outline) == records.check(record)
    assert records.envelope_text(outline, "r") == "REPLY"
    if uid is not None:
        assert records.uid_of(outline, 3) == UID
        assert records.trailer_of(outline) == records.trailer_of(record)


def test_check_of_an_outline_compares_its_size_and_checksum() -> None:
    outline = outline_of(records.encode(Fields(bytes(100_000))))
    outline.checksum ^= 1
    with pytest.raises(RequestError, match="checksum"):
        records.check(outline)
    outline.checksum ^= 1
    outline.size -= 1
    with pytest.raises(RequestError, match="bytes"):
        records.check(outline)
