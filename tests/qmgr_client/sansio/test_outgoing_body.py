"""Tests of long puts, which are sent in pieces: their order, ids, windows and repetitions."""

from typing import Any

import pytest

from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import PutResult
from qmgr_client.sansio.outgoing_body import OutgoingBody, pieces_for, record_limit
from qmgr_client.sansio.units import Unit
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.pieces import PIECE_BYTES, PieceOrder
from tests.qmgr_client.scripted import Scripted

LONG = b"long" * (PIECE_BYTES // 2)  # two and a bit pieces
RECORD = records.encode(records.Fields(LONG))
SHORT = records.encode(records.Fields(b"x"))


class Pair(Scripted):
    """A scripted pair whose queue manager accepts pieces, with an open producer."""

    def __init__(self, **welcome: Any) -> None:
        super().__init__(**{"piece_max_bytes": PIECE_BYTES} | welcome)
        self.first = self.put(b"first")
        self.opened()
        self.hear(m.Put)
        self.say(m.Committed(7, 1, [], [[1, 500, 1]]))

    def order(self) -> list[str]:
        """Returns what the core has sent since the last call: pieces, and queues of puts."""
        found = [
            f"{message.body}+{message.offset // PIECE_BYTES}"
            if type(message) is m.Piece
            else f"{message.queue}{message.first_id}"
            if type(message) is m.Put
            else type(message).__name__
            for message in self.pump()
        ]
        self.heard.clear()
        return found

    def data(self) -> bytes:
        """Returns the record in the pieces that were sent since the last call."""
        order = PieceOrder()
        pieces = self.hear_all(m.Piece)
        assert [order.take(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        return b"".join(piece.data for piece in pieces)


def test_body_is_the_record_in_pieces() -> None:
    body = OutgoingBody(3, RECORD, PIECE_BYTES)
    pieces = list(iter(body.next, None))
    assert b"".join(piece.data for piece in pieces) == RECORD
    assert {(piece.body, piece.size) for piece in pieces} == {(3, len(RECORD))}
    assert body.sent_bytes == body.size == len(RECORD)


@pytest.mark.parametrize(
    ("size", "accepted", "expected"),
    [
        (PIECE_BYTES, PIECE_BYTES, 0),
        (PIECE_BYTES + 1, PIECE_BYTES, PIECE_BYTES),
        (PIECE_BYTES + 1, 68_000, 68_000),
        (PIECE_BYTES + 1, 0, 0),
    ],
)
def test_record_has_pieces_if_it_is_long_and_the_peer_accepts_them(
    size: int, accepted: int, expected: int
) -> None:
    limits = m.Welcome(1, "QM1", b"s" * 16, 1, piece_max_bytes=accepted)
    assert pieces_for(bytes(size), limits) == expected


def test_longest_record_depends_on_frames_only_without_pieces() -> None:
    limits = m.Welcome(1, "QM1", b"", 1, frame_max_bytes=10**6, message_max_bytes=10**8)
    assert record_limit(limits, 100) == 10**6 - 100
    assert record_limit(limits._replace(piece_max_bytes=PIECE_BYTES), 100) == 10**8


def test_long_put_follows_its_pieces_and_is_answered_like_others() -> None:
    pair = Pair()
    ticket = pair.put(LONG)
    put = pair.hear(m.Put)
    assert put == m.Put(7, 2, 1, "Q", [b""], [], [[0, 1]])
    assert pair.data() == RECORD
    assert pair.core.outstanding == 1
    pair.say(m.Committed(7, 2, [], [[2, 600, 1]]))
    assert pair.done[ticket] == PutResult(records.Uid("QM1", 600), resent=False)
    assert pair.core.outstanding == 0


def test_queue_manager_without_pieces_receives_a_long_put_in_one_frame() -> None:
    pair = Pair(piece_max_bytes=0)
    pair.put(LONG)
    assert pair.hear(m.Put).records == [RECORD]


def test_short_puts_to_other_queues_pass_between_the_pieces() -> None:
    pair = Pair()
    pair.put(LONG, "LONG")
    core, found = pair.core, []
    for number in range(4):
        pair.put(b"x", f"Q{number}.")
        far = pair._far
        assert far is not None
        found += [type(message) for message, _ in far.receive(core.data_to_send(0), 0)]
    assert found[:4] == [m.Put, m.Piece, m.Put, m.Piece]


def test_puts_leave_in_the_order_of_each_queue() -> None:
    pair = Pair()
    for body, queue in [
        (LONG, "A"),
        (b"1", "A"),
        (b"2", "B"),
        (LONG, "B"),
        (b"3", "B"),
        (b"4", "C"),
    ]:
        pair.put(body, queue)
    assert pair.core.outstanding == 6
    found = [name for name in pair.order() if "+" not in name]
    assert found == ["B2", "C3", "A4", "A5", "B6", "B7"]


def test_commit_of_a_unit_waits_for_the_long_puts_before_it() -> None:
    pair = Pair()
    ticket = pair.core.begin_unit()
    pair.say(m.Ok(pair.hear(m.UnitBegin).request_id))
    unit = pair.done[ticket]
    assert isinstance(unit, Unit)
    pair.put(LONG, "A")
    pair.core.commit(unit)
    pair.put(b"x", "B")
    assert [name for name in pair.order() if "+" not in name] == ["A2", "UnitCommit", "B4"]


def test_flood_of_puts_does_not_stop_the_pieces() -> None:
    pair = Pair(put_window_messages=100_000)
    pair.put(LONG, "LONG")
    for _ in range(10_000):
        pair.put()
    found = pair.order()
    (at,) = [at for at, name in enumerate(found) if name.startswith("LONG")]
    assert at < len(found) - 1, found


def test_window_of_bytes_counts_the_frame_of_a_long_put_only() -> None:
    pair = Pair(put_window_bytes=300_000)
    pair.put(LONG, "A")
    pair.put(LONG, "B")
    assert [put.queue for put in pair.hear_all(m.Put)] == ["A", "B"]
    pair.say(m.Committed(7, 3, [], []))
    pair.put(b"." * 200_000)
    assert len(pair.hear_all(m.Put)) == 1


def test_long_put_waits_for_the_window_of_messages_after_its_pieces() -> None:
    pair = Pair(put_window_messages=2)
    for queue in "AB":
        pair.put(b"x", queue)
    pair.put(LONG, "LONG")
    assert [name for name in pair.order() if "+" not in name] == ["A2", "B3"]
    pair.say(m.Committed(7, 3, [], []))
    assert pair.order() == ["LONG4"]


def test_lost_connection_begins_an_unsent_long_put_again_from_its_first_piece() -> None:
    pair = Pair()
    pair.put(LONG, "A")
    pair.put(b"x", "A")
    pair.core.data_to_send(0)
    pair.cut()
    assert pair.core.outstanding == 2
    pair.opened(1)
    assert pair.order() == ["1+0", "1+1", "1+2", "A2", "A3"]


def test_unanswered_long_put_is_repeated_under_its_id_before_later_ones() -> None:
    pair = Pair()
    ticket = pair.put(LONG, "A")
    pair.put(b"x", "B")
    assert pair.order() == ["B2", "1+0", "1+1", "1+2", "A3"]
    pair.put(b"y", "C")
    assert pair.order() == ["C4"]
    pair.cut()
    get = pair.core.request(0, m.Get, "Q")
    pair.opened(2)
    assert pair.order() == ["1+0", "1+1", "1+2", "A3", "C4", "Get"]
    pair.say(m.Committed(7, 4, [], [[3, 700, 2]]))
    assert pair.done[ticket].resent
    assert get not in pair.done


def test_repeated_long_put_that_was_stored_meanwhile_stops() -> None:
    pair = Pair()
    ticket = pair.put(LONG, "A")
    pair.order()
    pair.cut()
    pair.opened(1)
    assert pair._far is not None
    pair._far.receive(pair.core.data_to_send(0), 0)
    pair.say(m.Committed(7, 2, [], [[2, 700, 1]]))
    assert pair.done[ticket].resent
    pair.put(b"x", "A")
    assert pair.order() == ["A3"]


def test_put_that_is_longer_than_the_limit_is_refused_without_pieces() -> None:
    pair = Pair(message_max_bytes=len(RECORD) - 1)
    ticket = pair.put(LONG)
    assert pair.order() == []
    assert pair.done[ticket].code == ErrorCode.MESSAGE_TOO_LARGE


def test_long_puts_count_as_waiting_and_end_with_the_client() -> None:
    pair = Pair(put_window_bytes=len(RECORD))
    tickets = [pair.put(LONG, "A"), pair.put(b"x", "A")]
    pair.core.data_to_send(0)
    assert not pair.core.can_put
    pair.core.end(ConnectionEnded(ErrorCode.CANCELLED, "the end"))
    pair.pump()
    assert [pair.done[ticket].code for ticket in tickets] == [ErrorCode.CANCELLED] * 2


# -- in units of work


def begun(pair: Pair) -> Unit:
    ticket = pair.core.begin_unit()
    pair.say(m.Ok(pair.hear(m.UnitBegin).request_id))
    unit = pair.done[ticket]
    assert isinstance(unit, Unit)
    return unit


def test_long_put_of_a_unit_follows_its_pieces() -> None:
    pair = Pair()
    unit = begun(pair)
    ticket = pair.core.unit_put(unit, "Q", [(RECORD, None)])
    request = pair.hear(m.UnitPut)
    assert (request.records, request.bodies) == ([b""], [[0, 2]])
    assert pair.data() == RECORD
    pair.say(m.Ok(request.request_id, [[], [[0, 500, 1]]]))
    assert pair.done[ticket] == [PutResult(records.Uid("QM1", 500))]
    assert unit.puts == 1


def test_later_puts_of_the_unit_wait_and_those_of_others_pass() -> None:
    pair = Pair()
    first, second = begun(pair), begun(pair)
    pair.core.unit_put(first, "A", [(RECORD, None)])
    pair.core.unit_put(first, "B", [(SHORT, None)])
    pair.core.unit_put(second, "C", [(SHORT, None)])
    assert [request.queue for request in pair.hear_all(m.UnitPut)] == ["C", "A", "B"]


def test_pieces_of_puts_and_units_alternate() -> None:
    pair = Pair()
    pair.core.unit_put(begun(pair), "A", [(RECORD, None)])
    pair.put(LONG, "B")
    bodies = [name[0] for name in pair.order() if "+" in name]
    assert bodies in (["1", "2"] * 3, ["2", "1"] * 3)


def test_abandoned_put_of_a_unit_sends_no_further_pieces() -> None:
    pair = Pair()
    unit = begun(pair)
    ticket = pair.core.unit_put(unit, "A", [(RECORD, None)])
    pair.core.data_to_send(0)
    pair.core.abandon(ticket)
    assert pair.order() == []
    pair.core.unit_put(unit, "A", [(RECORD, None)])
    assert pair.order() == ["2+0", "2+1", "2+2", "UnitPut"]


def test_long_put_of_a_unit_is_lost_with_its_connection() -> None:
    pair = Pair()
    unit = begun(pair)
    ticket = pair.core.unit_put(unit, "A", [(RECORD, None)])
    pair.core.data_to_send(0)
    pair.cut()
    assert isinstance(pair.done[ticket], RequestError)
    assert pair.done[ticket].code == ErrorCode.UNIT_BACKED_OUT
    pair.connect()
    assert pair.order() == []
