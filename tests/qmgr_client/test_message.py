"""Messages: what a producer puts is what a consumer sees."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.message import NOWHERE, Home, Outgoing, decode, encode
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.record import Uid
from tests.qmgr_client.scripted import delivery


def item(record: bytes, state: int = 0) -> bytes:
    return m.DELIVERY.pack(4, 9, 77, 2, 1, state, 1_700_000_000_123_456) + record


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
def test_what_is_put_comes_out(
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


def test_delivery_tells_its_history() -> None:
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
    with pytest.raises(FieldInvalid, match=r"Deliver\.items: 29 bytes, at least 30"):
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
    assert not home.knows(Home(b"s", 5)), "the store was put back to an earlier state"
    assert not home.knows(Home(b"t", 4))
    assert not home.knows(NOWHERE)
