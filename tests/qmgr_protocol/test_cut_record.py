"""Tests of the beginnings of long records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import record
from qmgr_protocol.cut_record import shortened
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Fields, Uid
from tests.qmgr_protocol.strategies import RECORD_FIELDS, UIDS

UID = Uid("QM1", 1_700_000_000_000_001)


@given(RECORD_FIELDS, UIDS, st.data())
def test_shortened_record_is_valid_and_has_the_beginning_of_the_body(
    fields: Fields, uid: Uid, data: st.DataObject
) -> None:
    fields = fields._replace(uid=uid)
    whole, trailer = record.encode(fields), record.encode_uid(uid)
    missing = data.draw(st.integers(0, len(fields.body)))
    front = whole[: len(whole) - len(trailer) - missing]
    found, cut_bytes = shortened(front, trailer)
    assert cut_bytes == missing
    kept = fields.body[: len(fields.body) - missing]
    assert record.decode(found) == record.decode(whole)._replace(body=kept)


@pytest.mark.parametrize("length", [0, 23, 43, 55, 1_000])
def test_front_that_does_not_end_within_the_body_is_malformed(length: int) -> None:
    """The body is at the bytes 44 to 53."""
    whole = record.encode(Fields(b"0123456789", correlation_id=b"c" * 20, uid=UID))
    front = (whole + bytes(1_000))[:length]
    with pytest.raises(RequestError) as caught:
        shortened(front, record.encode_uid(UID))
    assert caught.value.code == ErrorCode.RECORD_MALFORMED
