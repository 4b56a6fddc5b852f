from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import record
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Fields, Uid
from tests.qmgr_protocol.strategies import RECORD_FIELDS, UIDS

UID = Uid("QM1", 1_700_000_000_000_001)
DEEP: Any = 1
for _ in range(2_000):
    DEEP = [DEEP]


def code_of(action: Any, *args: Any) -> int:
    with pytest.raises(RequestError) as caught:
        action(*args)
    return caught.value.code


def test_head_is_24_bytes() -> None:
    assert record.HEAD_BYTES == 24
    assert len(record.encode(Fields(b""))) == 24


def test_each_byte_of_the_head_stands_where_it_is_drawn() -> None:
    data = record.encode(
        Fields(
            b"body!",
            priority=7,
            correlation_id=b"cc",
            envelope={"a": 1},
            uid=Uid("QM", 258),
            group=(b"g" * 24, 3, True),
            expiry_ms=515,
            flags=2,
        )
    )
    assert data[0:4] == crc32(data[5:]).to_bytes(4, "big")
    assert data[4] == 2  # the origin
    assert data[5:8] == bytes([1, 7, 2])  # the version, the priority and the flags
    assert data[8:16] == (515).to_bytes(8, "big")
    assert data[16:18] == bytes([2, 3])  # with a correlation id, in a group, and the last of it
    assert data[18:20] == (4).to_bytes(2, "big")
    assert data[20:24] == (5).to_bytes(4, "big")
    assert data[24:] == (
        b"cc" + b"g" * 24 + b"\0\0\0\3" + b"\x81\xa1a\x01" + b"body!" + b"QM" + b"\0\0\0\0\0\0\1\2"
    )


@given(RECORD_FIELDS)
def test_encoded_value_is_decoded(fields: Fields) -> None:
    assert record.decode(record.encode(fields)) == fields


@given(RECORD_FIELDS.map(lambda fields: fields._replace(uid=None)), UIDS)
def test_stamping_later_is_the_same_as_at_once(fields: Fields, uid: Uid) -> None:
    at_once = record.encode(fields._replace(uid=uid))
    assert record.stamp(record.encode(fields), uid) == at_once
    assert record.uid_of(at_once, record.check(at_once).origin_length) == uid


def test_uid_is_written_with_a_period() -> None:
    assert str(UID) == "QM1.1700000000000001"


@pytest.mark.parametrize(
    "fields",
    [
        Fields(b"", priority=-1),
        Fields(b"", priority=10),
        Fields(b"", correlation_id=b"c" * 65),
        Fields(b"", expiry_ms=-1),
        Fields(b"", expiry_ms=2**63),
        Fields(b"", flags=256),
        Fields(b"", group=(b"g" * 23, 1, False)),
        Fields(b"", group=(b"g" * 25, 1, False)),
        Fields(b"", uid=Uid("", 1)),
        Fields(b"", uid=Uid("x" * 65, 1)),
        Fields(b"", uid=Uid("ü", 1)),
        Fields(b"", uid=Uid("A@B", 1)),
        Fields(b"", uid=Uid("\ud800", 1)),
        Fields(b"", uid=Uid("QM1", -1)),
        Fields(b"", uid=Uid("QM1", 2**63)),
        Fields(b"", envelope={"a": "x" * 65_536}),
        Fields(b"", envelope={"a": object()}),
        Fields(b"", envelope={"a": 2**64}),
        Fields(b"", envelope={"a": DEEP}),
        Fields(b"", envelope={"a": {1: 2}}),
        Fields(b"", envelope={"a": "\ud800"}),
    ],
    ids=lambda fields: repr(fields)[:60] if fields.envelope == {} else "envelope",
)
def test_field_beyond_its_limit_is_refused(fields: Fields) -> None:
    assert code_of(record.encode, fields) == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize("number", [-1, 0, 1_000_000_000, 2**32])
def test_number_that_no_message_has_in_a_group_is_refused(number: int) -> None:
    """E1, E19: valid numbers are 1 to 999,999,999; see test_field_at_its_limit_is_taken."""
    refused = code_of(record.encode, Fields(b"", group=(b"g" * 24, number, False)))
    assert refused == ErrorCode.GROUP_NUMBER_INVALID


@pytest.mark.parametrize(
    "envelope",
    [{str(i): i for i in range(8_000)}, {"a": [0] * 20_000}, {"a": "x" * 65_500}],
    ids=["many", "a list", "a text"],
)
def test_envelope_that_fits_can_be_read_again(envelope: dict[str, Any]) -> None:
    """An envelope is refused if no consumer could read it."""
    assert record.decode(record.encode(Fields(b"", envelope=envelope))).envelope == envelope


def test_envelope_that_is_no_map_is_malformed() -> None:
    data = record.HEAD.pack(0, 0, 1, 4, 0, 0, 0, 0, 1, 0) + b"\x90"
    data = crc32(data[5:]).to_bytes(4, "big") + data[4:]
    record.check(data)  # The daemon never looks into an envelope.
    assert code_of(record.decode, data) == ErrorCode.RECORD_MALFORMED


def test_envelope_that_is_no_msgpack_is_malformed() -> None:
    data = record.HEAD.pack(0, 0, 1, 4, 0, 0, 0, 0, 1, 0) + b"\xc1"
    data = crc32(data[5:]).to_bytes(4, "big") + data[4:]
    assert code_of(record.decode, data) == ErrorCode.RECORD_MALFORMED


@pytest.mark.parametrize("origin", [b"\xff", "ü".encode(), b"a b", b"A@B", b"\0", b"QM1\n"])
def test_origin_that_is_no_plain_name_is_malformed(origin: bytes) -> None:
    data = record.stamp_encoded(record.encode(Fields(b"")), origin + bytes(8))
    assert code_of(record.uid_of, data, record.check(data).origin_length) == 400
    assert code_of(record.decode, data) == ErrorCode.RECORD_MALFORMED


def test_timestamp_beyond_63_bits_is_malformed() -> None:
    data = record.stamp_encoded(record.encode(Fields(b"")), b"Q" + b"\xff" * 8)
    assert code_of(record.uid_of, data, 1) == ErrorCode.RECORD_MALFORMED


@given(RECORD_FIELDS, st.data())
def test_flipped_bit_is_always_noticed(fields: Fields, data: st.DataObject) -> None:
    """The checksum omits byte 4, the length of the origin, but the lengths reveal a change."""
    damaged = bytearray(record.encode(fields))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert code_of(record.check, bytes(damaged)) in (400, 401)


@given(RECORD_FIELDS, st.data())
def test_cut_record_is_always_noticed(fields: Fields, data: st.DataObject) -> None:
    whole = record.encode(fields)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert code_of(record.check, cut) in (400, 401)


@given(RECORD_FIELDS, st.binary(max_size=20))
def test_size_of_a_record_is_known_whatever_follows(fields: Fields, behind: bytes) -> None:
    data = record.encode(fields)
    assert record.size_of(data + behind) == len(data)
    assert record.size_of(data[: record.HEAD_BYTES - 1]) == 0


def test_size_of_an_envelope_is_known_from_the_head() -> None:
    data = record.encode(Fields(b"body", envelope={"headers": {"a": 1}}))
    assert record.envelope_bytes(data[: record.HEAD_BYTES]) == len(data) - record.HEAD_BYTES - 4
    assert record.envelope_bytes(record.encode(Fields(b"body"))) == 0
    assert record.envelope_bytes(data[: record.HEAD_BYTES - 1]) == 0


@given(RECORD_FIELDS)
def test_delay_is_read_without_decoding(fields: Fields) -> None:
    data = record.encode(fields)
    assert record.delay_of(data, record.check(data)) == fields.delay_ms


@pytest.mark.parametrize("delay_ms", [-1, record.DELAY_MAX_MS + 1])
def test_delay_out_of_range_is_refused(delay_ms: int) -> None:
    with pytest.raises(RequestError, match=f"delay of {delay_ms} ms is out of range"):
        record.encode(Fields(b"", delay_ms=delay_ms))


@given(st.binary(max_size=100))
def test_random_bytes_are_no_record(data: bytes) -> None:
    assert code_of(record.decode, data) in (400, 401)


@given(RECORD_FIELDS, st.data())
def test_mutated_record_with_a_right_checksum_is_read_or_refused(
    fields: Fields, data: st.DataObject
) -> None:
    mutated = bytearray(record.encode(fields))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, min(len(mutated) - 1, 40)))
        mutated[place] = data.draw(st.integers(0, 255))
    mutated[:4] = crc32(mutated[5:]).to_bytes(4, "big")
    try:
        found = record.decode(bytes(mutated))
    except RequestError as error:
        refused: int = error.code
    else:
        refused = 0
        assert 0 <= found.priority <= 9
        assert len(found.correlation_id) <= 64
        assert not found.flags & (record.FLAGS_NOT_UNDERSTOOD | record.FLAG_DELAYED)
        assert 0 <= found.delay_ms <= record.DELAY_MAX_MS
    assert refused in (0, ErrorCode.RECORD_MALFORMED)


def reheaded(data: bytes, **changed: int) -> bytes:
    """Returns *data* with changed fields in its head and a valid checksum."""
    head = record.Head._make(record.HEAD.unpack_from(data))._replace(**changed)
    data = record.HEAD.pack(*head) + data[record.HEAD_BYTES :]
    return crc32(data[5:]).to_bytes(4, "big") + data[4:]


@pytest.mark.parametrize(
    ("sound", "unsound"),
    [
        ({"body_length": 200}, {"body_length": 199}),
        ({"body_length": 200}, {"body_length": 201}),
        ({"version": 1}, {"version": 0}),
        ({"version": 1}, {"version": 2}),
        ({"priority": 9}, {"priority": 10}),
        ({"flags": 0x0F}, {"flags": 0x10}),
        ({"flags": 0x0F}, {"flags": 0x20}),
        ({"flags": 0x10, "body_length": 200 - 8}, {"flags": 0x30, "body_length": 200 - 8}),
        ({"expiry_ms": 2**63 - 1}, {"expiry_ms": 2**63}),
        (
            {"correlation_length": 64, "body_length": 200 - 64},
            {"correlation_length": 65, "body_length": 200 - 65},
        ),
        (
            {"origin_length": 64, "body_length": 200 - 64 - 8},
            {"origin_length": 65, "body_length": 200 - 65 - 8},
        ),
        ({"group_flags": 1, "body_length": 200 - 28}, {"group_flags": 2, "body_length": 200 - 28}),
        ({"group_flags": 3, "body_length": 200 - 28}, {"group_flags": 4, "body_length": 200 - 28}),
    ],
    ids=str,
)
def test_field_of_a_head_is_held_to_its_limit(
    sound: dict[str, int], unsound: dict[str, int]
) -> None:
    data = record.encode(Fields(bytes(200)))
    head = record.check(reheaded(data, **sound))
    assert {name: getattr(head, name) for name in sound} == sound
    assert code_of(record.check, reheaded(data, **unsound)) == ErrorCode.RECORD_MALFORMED


class Announced(bytes):
    """A body that claims to be longer than it is: four gigabytes are too large for a test."""

    size = 0

    def __len__(self) -> int:
        return self.size


def body_of(size: int) -> Announced:
    body = Announced()
    body.size = size
    return body


@pytest.mark.parametrize(
    "fields",
    [
        Fields(b"", correlation_id=b"c" * 64),
        Fields(b"", envelope={"a": "x" * (65_535 - 6)}),
        Fields(body_of(2**32 - 1)),
        Fields(b"", flags=255),
        Fields(b"", group=(b"g" * 24, 999_999_999, False)),
        Fields(b"", group=(bytes(24), 1, True)),
        Fields(b"", expiry_ms=2**63 - 1, priority=9),
        Fields(b"", uid=Uid("x" * 64, 2**63 - 1)),
        Fields(b"", uid=Uid("x", 0)),
    ],
    ids=lambda fields: repr(fields)[:60],
)
def test_field_at_its_limit_is_taken(fields: Fields) -> None:
    head = record.HEAD.unpack_from(record.encode(fields))
    assert record.Head._make(head).body_length == len(fields.body)


NOT_A_UID = (
    "{!r} is not a valid UID: it needs an origin of 1 to 64 characters of A-Z a-z 0-9 . _ -, "
    "and a timestamp below 2**63"
)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (Fields(b"", priority=10), "priority 10 is out of range (0 to 9)"),
        (
            Fields(b"", correlation_id=b"c" * 65),
            "correlation id of 65 bytes exceeds the limit of 64",
        ),
        (
            Fields(b"", envelope={"a": "x" * (65_536 - 6)}),
            "headers of 65536 bytes exceed the limit of 65535",
        ),
        (Fields(body_of(2**32)), "body of 4294967296 bytes exceeds the limit of 4294967295"),
        (Fields(b"", expiry_ms=-1), "expiry of -1 ms is out of range (0 to 2**63 - 1)"),
        (Fields(b"", flags=-1), "flags -1 are out of range (0 to 255)"),
        (Fields(b"", group=(b"g" * 23, 1, False)), "group id of 23 bytes; 24 are required"),
        (
            Fields(b"", group=(b"g" * 24, -1, False)),
            "number -1 in a group is out of range (1 to 999999999)",
        ),
        (Fields(b"", uid=Uid("A@B", 7)), NOT_A_UID.format("A@B.7")),
        (Fields(b"", uid=Uid("x" * 200, 7)), NOT_A_UID.format("x" * 100)),
        (Fields(b"", envelope={"a": object()}), "headers: can not serialize 'object' object"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_refusal_of_a_field_says_what_is_wrong(fields: Fields, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        record.encode(fields)
    assert caught.value.text == text


HELLO = record.encode(Fields(b"hello"))
OUT_OF_RANGE = record.Head._make(record.HEAD.unpack_from(reheaded(HELLO, priority=11)))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (HELLO[:10], "a record of 10 bytes is too short for a head of 24 bytes"),
        (HELLO[:-1] + b"!", "the checksum of the record does not match its contents"),
        (reheaded(HELLO, version=2), "unknown version 2; only version 1 is supported"),
        (
            reheaded(HELLO, flags=0x20),
            "flags 0x20 contain an unknown flag that must not be ignored",
        ),
        (reheaded(HELLO, flags=0x10), "the record has 29 bytes, but its lengths add up to 37"),
        (
            reheaded(HELLO + b"\xff" * 8, flags=0x10),
            f"a delay of {0x68656C6C_6FFFFFFF} ms exceeds {record.DELAY_MAX_MS} ms",
        ),
        (reheaded(HELLO, body_length=4), "the record has 29 bytes, but its lengths add up to 28"),
        (reheaded(HELLO, priority=11), f"a field is out of range: {OUT_OF_RANGE}"),
        (
            record.stamp_encoded(HELLO, b"a b" + bytes(8)),
            "the origin 'a b' is not a valid name: use 1 to 64 of A-Z a-z 0-9 . _ -",
        ),
        (
            record.stamp_encoded(HELLO, b"Q" + b"\xff" * 8),
            f"timestamp {2**64 - 1} exceeds {2**63 - 1}",
        ),
        (
            reheaded(HELLO, envelope_length=1, body_length=4),
            "the envelope is of type int, not a map",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_refusal_of_a_record_says_what_is_wrong(data: bytes, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        record.decode(data)
    assert caught.value.text == text


def test_named_places_in_a_record_are_those_of_its_head() -> None:
    data = record.HEAD.pack(0x01020304, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    assert data[record.CHECKSUM] == b"\1\2\3\4"
    assert data[record.ORIGIN_LENGTH] == bytes([data[record.ORIGIN_LENGTH_AT]]) == b"\5"
    assert data[record.ORIGIN_LENGTH_TO_FLAGS] == b"\5\6\7\x08"
    assert (data[record.PRIORITY_AT], data[record.FLAGS_AT]) == (7, 8)
    assert data[record.EXPIRY] == (9).to_bytes(8, "big")
    assert data[record.CORRELATION_LENGTH] == bytes([data[record.CORRELATION_LENGTH_AT]]) == b"\n"
    assert data[record.GROUP_FLAGS] == bytes([data[record.GROUP_FLAGS_AT]]) == b"\x0b"
    assert data[record.EXPIRY_TO_GROUP_FLAGS] == data[record.EXPIRY] + b"\n\x0b"
    joined = record.JOINED_HEAD.unpack(data)
    assert joined == (0x01020304, b"\5\6\7\x08", 9, 10, 11, 12, 13)
    grouped = record.GROUPED_HEAD.unpack(data + b"g" * 24 + b"\0\0\0\x0e")
    assert grouped == (*joined[:3], 10 << 8 | 11, 12, 13, b"g" * 24, 14)


@given(UIDS)
def test_trailer_of_a_stamped_record_is_its_uid(uid: Uid) -> None:
    trailer = record.trailer_of(record.encode(Fields(b"x", uid=uid)))
    assert trailer == record.encode_uid(uid)
    assert record.decode_uid(trailer) == uid


@pytest.mark.parametrize(("flags", "priority"), [(0, 7), (record.FLAG_PRIORITY_OF_QUEUE, None)])
def test_own_priority_is_none_if_the_queue_decides(flags: int, priority: int | None) -> None:
    assert record.own_priority(record.encode(Fields(b"", priority=7, flags=flags))) == priority
