"""Tests of the turns in which connections send pieces."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.record import Fields
from qmgrd.core.context.piece_sender import PieceSender
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.long_record import Body, LongRecord
from qmgrd.core.limits.unread_replies import UnreadReplies
from tests.memory_store import MemoryStore

PIECE_BYTES = 100_000


class Send:
    """A record on its way, and what happened to it."""

    piece_bytes = PIECE_BYTES

    def __init__(self, store: MemoryStore, body_id: int, size: int) -> None:
        data = records.encode(Fields(bytes([body_id]) * size))
        entries.write_rows(store, body_id, data, b"")
        checksum = int.from_bytes(data[records.CHECKSUM], "big")
        self.record = LongRecord.of(data[:100], Body(body_id, len(data)), len(data), checksum)
        self.is_wanted = True
        self.ends: list[str] = []

    def goes_on(self) -> bool:
        return self.is_wanted

    def finish(self) -> None:
        self.ends.append("finished")

    def set_aside(self) -> None:
        self.ends.append("set aside")


@pytest.fixture
def tx() -> MemoryStore:
    store = MemoryStore()
    store.begin()
    return store


class Post:
    """The pieces that were sent, as connection and offset."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []

    def __call__(self, connection: int, message: Any) -> None:
        assert type(message) is m.Piece
        assert message.body == 1
        self.sent.append((connection, message.offset))


def test_connections_take_turns_and_send_one_record_at_a_time(tx: MemoryStore) -> None:
    sender, post = PieceSender(UnreadReplies()), Post()
    sends = [Send(tx, number, 150_000) for number in (1, 2, 3)]
    for connection, send in zip((7, 7, 8), sends, strict=True):
        sender.begin(connection, send)
    while sender.can_go_on:
        assert sender.run(tx, post) > 0
    own = [(7, 0), (8, 0), (7, 100_000), (8, 100_000), (7, 0), (7, 100_000)]
    assert post.sent == own
    assert [send.ends for send in sends] == [["finished"]] * 3
    assert sender.run(tx, post) == 0


def test_held_connection_waits(tx: MemoryStore) -> None:
    unread = UnreadReplies()
    sender, post = PieceSender(unread), Post()
    sender.begin(7, Send(tx, 1, 150_000))
    unread.block(7)
    assert not sender.can_go_on
    assert sender.run(tx, post) == 0
    unread.unblock(7)
    assert sender.can_go_on


def test_record_that_is_not_wanted_ends_silently(tx: MemoryStore) -> None:
    sender, post = PieceSender(UnreadReplies()), Post()
    send, other = Send(tx, 1, 150_000), Send(tx, 2, 150_000)
    sender.begin(7, send)
    sender.begin(7, other)
    sender.run(tx, post)
    send.is_wanted = False
    while sender.can_go_on:
        sender.run(tx, post)
    assert (send.ends, other.ends) == ([], ["finished"])


@pytest.mark.parametrize("change", ["lost", "damaged"])
def test_record_with_other_bytes_is_set_aside(tx: MemoryStore, change: str) -> None:
    sender, post = PieceSender(UnreadReplies()), Post()
    send = Send(tx, 1, 150_000)
    key = keys.body(1, 30)
    if change == "lost":
        tx.delete(key)
    else:
        tx.put(key, b"x" * 4_000)
    sender.begin(7, send)
    while sender.can_go_on:
        sender.run(tx, post)
    assert send.ends == ["set aside"]
    assert post.sent == [(7, 0)]


def test_closed_connection_is_forgotten(tx: MemoryStore) -> None:
    sender = PieceSender(UnreadReplies())
    sender.begin(7, Send(tx, 1, 150_000))
    sender.close(7)
    sender.close(8)
    assert not sender.can_go_on
