"""Tests of records that arrive in pieces."""

from typing import Any

import pytest

from qmgr_client.sansio.arriving_bodies import RECORD_MAX_BYTES, ArrivingBodies
from qmgr_client.sansio.events import Failed
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, FieldInvalid
from qmgr_protocol.pieces import PIECE_BYTES
from tests.qmgr_client.scripted import Scripted, delivery

BODY = b"long" * (PIECE_BYTES // 2)
ITEM = delivery(BODY, 8, 9)


def cut(item: bytes, tail: bytes = b"", body: int = 1) -> tuple[list[m.Piece], bytes]:
    """Returns the pieces of the record in *item*, and the item without the record."""
    record = item[m.DELIVERY_BYTES :]
    pieces = [
        m.Piece(body, len(record), at, record[at : at + PIECE_BYTES])
        for at in range(0, len(record), PIECE_BYTES)
    ]
    return pieces, item[: m.DELIVERY_BYTES] + tail


def got(pair: Scripted) -> tuple[int, m.Get]:
    ticket = pair.core.request(0, m.Get, "Q")
    return ticket, pair.hear(m.Get)


def test_client_offers_to_accept_pieces() -> None:
    assert Scripted().connect().hello.piece_max_bytes == PIECE_BYTES


def test_message_in_pieces_is_received_by_a_get() -> None:
    pair = Scripted().connect()
    ticket, get = got(pair)
    pieces, item = cut(ITEM)
    pair.say(*pieces, m.Deliver(get.request_id, 3, [delivery(b"short"), item], [[1, 1]]))
    short, long = pair.done[ticket]
    assert (short.body, long.body, long.damage) == (b"short", BODY, "")


def test_message_in_pieces_is_received_by_a_consumer_and_uses_its_credit() -> None:
    pair = Scripted().connect()
    ticket = pair.core.consume("Q", 8, 2 * len(BODY))
    consume = pair.hear(m.Consume)
    pair.say(m.Ok(consume.request_id, [3, 30_000]))
    pieces, item = cut(ITEM)
    pair.say(*pieces, m.Deliver(consume.request_id, 3, [item], [[0, 1]]))
    message = pair.core.next_message(ticket, pair.now_ms)
    assert message is not None
    assert message.body == BODY
    assert pair.core._consumers.open[consume.request_id].held_bytes == len(ITEM) - m.DELIVERY_BYTES


def test_progress_counts_the_bodies_that_are_incomplete() -> None:
    pair = Scripted().connect()
    size = len(ITEM) - m.DELIVERY_BYTES
    pieces, _ = cut(ITEM)
    found = [pair.core.answers.long_bytes]
    for piece in pieces:
        pair.say(piece)
        found.append(pair.core.answers.long_bytes)
    assert found == [(0, 0), (PIECE_BYTES, size), (2 * PIECE_BYTES, size), (0, 0)]


def test_fields_after_the_record_are_read() -> None:
    pair = Scripted().connect()
    ticket, get = got(pair)
    item = delivery(BODY, state=m.STATE_EXPIRES)
    pieces, rest = cut(item, m.REMAINING.pack(7_000))
    pair.say(*pieces, m.Deliver(get.request_id, 3, [rest], [[0, 1]]))
    (message,) = pair.done[ticket]
    assert (message.body, message.expiry_left_ms) == (BODY, 7_000)


def test_damaged_message_in_pieces_has_its_damage() -> None:
    pair = Scripted().connect()
    ticket, get = got(pair)
    pieces, item = cut(ITEM)
    pieces[1] = pieces[1]._replace(data=bytes(PIECE_BYTES))
    pair.say(*pieces, m.Deliver(get.request_id, 3, [item], [[0, 1]]))
    (message,) = pair.done[ticket]
    assert "checksum" in message.damage


def test_abandoned_body_begins_again() -> None:
    pair = Scripted().connect()
    ticket, get = got(pair)
    pieces, item = cut(ITEM)
    stale, _ = cut(delivery(bytes(3 * PIECE_BYTES)))
    pair.say(*stale, *stale[:2], *pieces, m.Deliver(get.request_id, 3, [item], [[0, 1]]))
    assert pair.done[ticket][0].body == BODY


@pytest.mark.parametrize(
    ("sent", "rows", "why"),
    [
        (2, [[0, 1]], "Deliver.bodies: body 1 is not complete"),
        (0, [[0, 1]], "Deliver.bodies: body 1 is not complete"),
        (3, [[0, 1], [0, 1]], "Deliver.bodies: body 1 is not complete"),
        (3, [[1, 1]], "Deliver.bodies: item 1 does not exist"),
    ],
)
def test_delivery_of_a_body_that_did_not_arrive_ends_the_client(
    sent: int, rows: list[Any], why: str
) -> None:
    pair = Scripted().connect()
    _, get = got(pair)
    pieces, item = cut(ITEM)
    pair.say(*pieces[:sent], m.Deliver(get.request_id, 3, [item], rows))
    assert pair.latest(Failed).error.code == ErrorCode.FIELD_INVALID
    assert why in pair.latest(Failed).error.text


def test_body_does_not_outlive_its_connection() -> None:
    pair = Scripted().connect()
    pieces, item = cut(ITEM)
    pair.say(*pieces)
    pair.cut()
    pair.connect()
    _, get = got(pair)
    pair.say(m.Deliver(get.request_id, 3, [item], [[0, 1]]))
    assert "body 1 is not complete" in pair.latest(Failed).error.text


@pytest.mark.parametrize(
    ("message_max_bytes", "limit"),
    [(0, RECORD_MAX_BYTES), (RECORD_MAX_BYTES, RECORD_MAX_BYTES + 72)],
)
def test_record_above_the_limit_is_refused(message_max_bytes: int, limit: int) -> None:
    bodies = ArrivingBodies(message_max_bytes)
    data = bytes(PIECE_BYTES)
    bodies.take(m.Piece(1, limit, 0, data))
    with pytest.raises(FieldInvalid, match=rf"Piece.size: {limit + 1} bytes exceed the limit"):
        bodies.take(m.Piece(1, limit + 1, 0, data))
