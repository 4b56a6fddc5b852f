"""The beginning of a long record, as a browse shows it."""

from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import ErrorCode, RequestError


def shortened(front: bytes, trailer: bytes) -> tuple[bytes, int]:
    """Returns a valid record from the first bytes of a record and its UID.

    *front* contains the record up to some byte of the body, and *trailer* the encoded UID. Also
    returns the number of bytes of the body that are missing.

    Raises:
        RequestError: RECORD_MALFORMED if *front* ends before the body or after the record.
    """
    missing = records.size_of(front) - len(front) - len(trailer)
    head = records.Head._make(records.HEAD.unpack_from(front)) if missing >= 0 else None
    if head is None or head.body_length < missing:
        why = f"{len(front)} bytes do not end within the body of the record"
        raise RequestError(ErrorCode.RECORD_MALFORMED, why)
    record = bytearray(front + trailer)
    head = head._replace(body_length=head.body_length - missing)
    records.HEAD.pack_into(record, 0, *head)
    record[records.CHECKSUM] = crc32(bytes(record[records.SUMMED_AT :])).to_bytes(4, "big")
    return bytes(record), missing
