"""Tests of messages: consumers receive the fields that producers put."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.message import (
    NOWHERE,
    Group,
    Home,
    Message,
    Outgoing,
    decode,
    encode,
    record_bytes,
)
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.record import Uid
from tests.qmgr_client.scripted import delivery


def item(record: bytes, state: int = 0) -> bytes:
    return m.DELIVERY.pack(4, 9, 77, 2, 1, state, 1_700_000_000_123_456) + record


def test_priority_is_that_of_the_queue_where_the_put_leaves_it_to_that() -> None:
    record = item(encode(Outgoing(b"x")))
    high = m.DELIVERY.pack(9, 9, 77, 2, 1, 0, 0) + record[m.DELIVERY_BYTES :]
    assert decode(high, "Q", 3).priority == 9
    for queue in ("@NYC", "SYSTEM.PUBLICATIONS"):  # The two messages have the same rank.
        assert decode(high, queue, 3).priority == records.PRIORITY_DEFAULT
    own = m.DELIVERY.pack(9, 9, 77, 2, 1, 0, 0) + encode(Outgoing(b"x", priority=2))
    assert decode(own, "Q", 3).priority == 2


def test_message_of_no_group_is_a_group_of_one() -> None:
    """E3: The implied header has an id of zeros and number 1, and marks the message as the last."""
    alone = decode(item(encode(Outgoing(b"x"))), "Q", 3)
    assert (alone.group, alone.group_id, alone.group_number) == (None, bytes(24), 1)
    assert alone.group_last
    member = decode(item(encode(Outgoing(b"x", group=(b"g" * 24, 3, False)))), "Q", 3)
    assert (member.group_id, member.group_number) == (b"g" * 24, 3)
    assert not member.group_last


@pytest.mark.parametrize("state", [0, m.STATE_REDELIVERED, m.STATE_TAKEN_OVER])
def test_message_shows_whether_its_group_was_taken_over(state: int) -> None:
    message = decode(item(encode(Outgoing(b"x")), state), "Q", 3)
    assert message.taken_over is (state == m.STATE_TAKEN_OVER)


SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary()


@given(
    body=st.binary(),
    priority=st.integers(0, 9),
    correlation_id=st.binary(max_size=64),
    headers=st.dictionaries(st.text(max_size=20), SCALARS, max_size=5),
    reply_to=st.text(max_size=20),
    content_type=st.text(max_size=20),
    uid=st.none() | st.builds(Uid, st.just("QM2"), st.integers(0, 2**63 - 1)),
)
def test_message_that_is_put_can_be_decoded(
    body: bytes,
    priority: int,
    correlation_id: bytes,
    headers: dict[str, object],
    reply_to: str,
    content_type: str,
    uid: Uid | None,
) -> None:
    put = Outgoing(body, uid, priority, correlation_id, headers, reply_to, content_type)
    got = decode(item(encode(put)), "Q", 3)
    assert got.damage == ""
    assert (got.body, got.uid, got.priority) == (body, uid, priority)
    assert (got.correlation_id, got.headers) == (correlation_id, headers)
    assert (got.reply_to, got.content_type) == (reply_to, content_type)


def test_delivery_shows_its_history() -> None:
    got = decode(item(encode(Outgoing(b"x")), m.STATE_REDELIVERED), "Q", 3, Home(b"s", 1), 5)
    assert (got.queue, got.queue_id, got.home, got.consumer) == ("Q", 3, Home(b"s", 1), 5)
    assert (got.delivered, got.failed, got.redelivered) == (2, 1, "yes")
    assert got.handle == m.HANDLE.pack(4, 9, 77)
    assert got.put_time == datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "redelivered", "leased"),
    [
        (0, "no", False),
        (m.STATE_MAYBE_REDELIVERED, "maybe", False),
        (m.STATE_REDELIVERED | m.STATE_LEASED, "yes", True),
    ],
)
def test_state_is_read(state: int, redelivered: str, leased: bool) -> None:
    got = decode(item(encode(Outgoing(b"x")), state), "Q", 3)
    assert (got.redelivered, got.leased) == (redelivered, leased)


def test_damaged_record_is_the_body_of_its_message() -> None:
    record = encode(Outgoing(b"payload"))[:-1] + b"?"
    got = decode(item(record), "Q", 3)
    assert "checksum" in got.damage
    assert got.body == record


def test_envelope_that_is_no_map_is_damage() -> None:
    record = records.encode(records.Fields(b"x", envelope=[1]))  # type: ignore[arg-type]
    assert "envelope" in decode(item(record), "Q", 3).damage


def test_foreign_types_in_an_envelope_are_as_good_as_none() -> None:
    record = records.encode(records.Fields(b"x", envelope={"headers": 1, "reply_to": b"q"}))
    got = decode(item(record), "Q", 3)
    assert (got.headers, got.reply_to, got.content_type) == ({}, "", "")


def test_item_without_a_head_breaks_the_protocol() -> None:
    with pytest.raises(FieldInvalid, match=r"Deliver\.items: 29 bytes; the minimum is 30"):
        decode(delivery()[:29], "Q", 3)


@pytest.mark.parametrize(
    "headers",
    [
        {"when": datetime(2026, 1, 1, tzinfo=UTC)},
        {"big": 2**64},
        {"half": "\ud800"},
        {1: "not text"},
        [("a", "list")],
        "text",
    ],
)
def test_headers_that_no_consumer_could_read_are_refused(headers: dict[str, object]) -> None:
    with pytest.raises(RequestError) as caught:
        encode(Outgoing(b"x", headers=headers))
    assert caught.value.code == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize(
    ("outgoing", "why"),
    [
        (Outgoing("text"), "body is of type str, not bytes; encode it: body.encode()"),  # type: ignore[arg-type]
        (Outgoing(bytearray(b"x")), "body is of type bytearray, not bytes"),  # type: ignore[arg-type]
        (Outgoing(None), "body is of type NoneType, not bytes"),  # type: ignore[arg-type]
        (Outgoing(b"", priority="5"), "priority is of type str, not int"),  # type: ignore[arg-type]
        (Outgoing(b"", priority=4.0), "priority is of type float, not int"),  # type: ignore[arg-type]
        (Outgoing(b"", correlation_id="c"), "encode it: correlation_id.encode()"),  # type: ignore[arg-type]
        (Outgoing(b"", reply_to=b"Q"), "reply_to is of type bytes, not str"),  # type: ignore[arg-type]
        (Outgoing(b"", content_type=5), "content_type is of type int, not str"),  # type: ignore[arg-type]
        (Outgoing(b"", uid="A.5"), "uid is of type str, not Uid"),  # type: ignore[arg-type]
        (Outgoing(b"", uid=Uid(5, 5)), "is not a UID"),  # type: ignore[arg-type]
    ],
)
def test_field_of_a_wrong_type_is_refused_in_words(outgoing: Outgoing, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        encode(outgoing)
    assert caught.value.code == ErrorCode.VALUE_INVALID
    assert why in caught.value.text


def test_home_knows_what_its_own_earlier_boots_leased() -> None:
    home = Home(b"s", 4)
    assert home.knows(Home(b"s", 4))
    assert home.knows(Home(b"s", 3))
    assert not home.knows(Home(b"s", 5)), "the store was restored to an earlier state"
    assert not home.knows(Home(b"t", 4))
    assert not home.knows(NOWHERE)


NOTE = pack({"code": 410, "queue": "FLIGHTS", "attempts": [[1, 500, "", "", "app"]]})


def test_fields_after_the_record_are_read() -> None:
    """G12: A delivery states the time until the expiry, and the reason of a dead letter."""
    record = encode(Outgoing(b"x", group=(b"g" * 24, 2, True), persistent=False, report=True))
    extras = m.REMAINING.pack(59_000) + NOTE
    got = decode(item(record, m.STATE_EXPIRES | m.STATE_NOTED) + extras, "DEAD", 3)
    assert (got.body, got.damage, got.expiry_left_ms) == (b"x", "", 59_000)
    assert got.group == Group(b"g" * 24, 2, True)
    assert (got.persistent, got.report) == (False, True)
    assert got.dead is not None
    assert (got.dead.queue, len(got.attempts)) == ("FLIGHTS", 1)


def test_usual_message_lives_for_ever_and_is_no_dead_letter() -> None:
    got = decode(item(encode(Outgoing(b"x"))), "Q", 3)
    assert (got.expiry_left_ms, got.group, got.dead, got.attempts) == (None, None, None, ())
    assert (got.persistent, got.report, got.delay_ms) == (True, False, 0)
    assert decode(item(encode(Outgoing(b"x", delay_ms=7))), "Q", 3).delay_ms == 7


def test_note_stands_alone_too() -> None:
    got = decode(item(encode(Outgoing(b"x")), m.STATE_NOTED) + NOTE, "Q", 3)
    assert (got.expiry_left_ms, got.dead is None) == (None, False)


TOPIC = "flights/Zürich/LX"


def published(*rest: bytes, state: int = 0, retained: bool = False) -> Message:
    """Returns a delivered publication that has *rest* after its topic."""
    name = TOPIC.encode()
    record = encode(Outgoing(b"x", retained=retained))
    whole = item(record, m.STATE_TOPIC | state) + bytes([len(name)]) + name + b"".join(rest)
    assert record_bytes(whole) == len(record)
    return decode(whole, ":late", 3)


def test_publication_has_its_topic() -> None:
    got = published()
    assert (got.body, got.damage, got.topic) == (b"x", "", TOPIC)
    assert (got.republished, got.retained, got.expiry_left_ms, got.note) == (
        False,
        False,
        None,
        b"",
    )
    plain = decode(item(encode(Outgoing(b"x"))), "Q", 3)
    assert (plain.topic, plain.republished, plain.retained) == ("", False, False)


def test_topic_stands_before_all_else_that_follows() -> None:
    """C12: A republished message is marked, and contains the reasons of the earlier failures."""
    state = m.STATE_EXPIRES | m.STATE_NOTED | m.STATE_REPUBLISHED
    got = published(m.REMAINING.pack(59_000), NOTE, state=state, retained=True)
    assert (got.topic, got.expiry_left_ms, got.note) == (TOPIC, 59_000, NOTE)
    assert (got.republished, got.retained, len(got.attempts)) == (True, True, 1)
    noted = published(NOTE, state=m.STATE_NOTED)
    assert (noted.topic, noted.expiry_left_ms, noted.note) == (TOPIC, None, NOTE)


def test_fields_that_are_cut_short_are_read_as_far_as_possible() -> None:
    record = item(encode(Outgoing(b"x")), m.STATE_TOPIC | m.STATE_EXPIRES | m.STATE_NOTED)
    name = TOPIC.encode()
    tail = bytes([len(name)]) + name + m.REMAINING.pack(59_000) + NOTE
    for length in range(len(tail)):
        got = decode(record + tail[:length], ":late", 3)
        assert (got.body, got.damage) == (b"x", "")
        behind = length - 1 - len(name)
        assert TOPIC.startswith(got.topic.rstrip("\ufffd"))
        assert (got.topic == TOPIC) is (behind >= 0)
        assert got.expiry_left_ms == (59_000 if behind >= 8 else None)
        assert got.attempts == () or got.note == NOTE


@given(st.integers(8, 255), st.binary(max_size=20))
def test_record_is_read_whatever_follows(state: int, behind: bytes) -> None:
    record = encode(Outgoing(b"x"))
    got = decode(item(record, state) + behind, "Q", 3)
    assert (got.body, got.damage) == (b"x", "")
    assert record_bytes(item(record, state) + behind) == len(record)


@given(st.binary(max_size=60), st.integers(0, 255))
def test_rot_is_damage_and_no_error(rot: bytes, state: int) -> None:
    got = decode(item(rot, state), "Q", 3)
    assert got.damage
    assert 0 <= record_bytes(item(rot, state)) <= len(rot)
    assert got.attempts == () or got.note


def test_repr_is_short_and_has_no_body() -> None:
    record = encode(Outgoing(b"secret" * 1_000, Uid("NYC", 7), group=("N12345", 3, False)))
    got = decode(item(record, 0), "ORDERS", 3)
    assert repr(got) == (
        "<Message NYC.7 of ORDERS: 6000 bytes, priority 4, delivered 2, failed 1, "
        "group N12345 number 3>"
    )
    rotten = decode(item(b"secret", 0), "Q", 3)._replace(topic="a/b")
    assert repr(rotten).endswith("topic a/b, damaged>")
    assert repr(rotten).startswith("<Message no UID of Q: 6 bytes, ")
    assert "secret" not in f"{got!r} {got} {[rotten]}"
