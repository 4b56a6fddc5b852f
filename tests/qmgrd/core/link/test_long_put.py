"""Tests of long messages that a link sends in pieces."""

import random
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.core.lines import Line, Lines

BODY = random.Random(3).randbytes(2_000_000)
PIECE_BYTES = 128_000


@pytest.fixture
def lines() -> Lines:
    return Lines(Manager(limits={"message_max_bytes": "4 MiB"}), connections=1)


def up(lines: Lines) -> Line:
    (line,) = lines.up(piece_max_bytes=PIECE_BYTES)
    return line


def rest(lines: Lines) -> None:
    while lines.manager.turns.has_work:
        lines.turn()


def puts(line: Line) -> list[tuple[int, bytes]]:
    """Returns the ids and records that the peer has received, and checks the order of pieces."""
    found: list[tuple[int, bytes]] = []
    data = b""
    for message in line.sent:
        if type(message) is m.Piece:
            assert message.offset in (0, len(data))
            assert len(message.data) <= PIECE_BYTES
            data = data[: message.offset] + message.data
        elif type(message) is m.Put:
            batch: list[Any] = list(message.records)
            for index, _ in message.bodies:
                assert batch[index] == b""
                batch[index] = data
            found += [(message.first_id + i, record) for i, record in enumerate(batch)]
    line.sent = [x for x in line.sent if type(x) not in (m.Put, m.Piece)]
    line.taken += len(found)
    return found


def bodies(found: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return [(seq_id, records.decode(record).body if record else b"") for seq_id, record in found]


def test_long_message_is_sent_in_pieces_and_in_its_place(lines: Lines) -> None:
    lines.app.put("F@NYC", b"1", BODY, b"3", BODY[::-1])
    line = up(lines)
    rest(lines)
    assert sum(type(x) is m.Piece for x in line.sent) == 2 * (len(BODY) // PIECE_BYTES + 1)
    found = puts(line)
    assert bodies(found) == [(1, b"1"), (2, BODY), (3, b"3"), (4, BODY[::-1])]
    line.commit(4)
    rest(lines)
    assert lines.link.commit_id == 4
    assert lines.manager.scan(keys.SPACE_BODY) == []
    audit(lines.manager)


def test_turns_send_one_piece_and_other_work_goes_on(lines: Lines) -> None:
    lines.app.put("F@NYC", BODY)
    line = up(lines)
    for _ in range(5):
        before = sum(type(x) is m.Piece for x in line.sent)
        lines.app.send(m.Status(lines.app.next_id()))
        lines.turn()
        assert sum(type(x) is m.Piece for x in line.sent) == before + 1
        assert type(lines.app.hear()[-1]) is m.Ok
    rest(lines)
    assert bodies(puts(line)) == [(1, BODY)]


def test_peer_that_fetches_receives_pieces() -> None:
    manager = Manager(limits={"message_max_bytes": "4 MiB"})
    app = manager.connect("app")
    app.ask(m.LinkCreate, "FAR", {"addresses": []})
    app.ask(m.QueueCreate, "F@FAR")
    app.put("F@FAR", b"1", BODY)
    far = manager.connect("FAR", "queue-manager", b"F" * 16, piece_bytes=PIECE_BYTES)
    sent = far.say(m.LinkFetch(2, 0, 8 << 20, 4 << 20, 100, 16 << 20))
    sent += far.say(m.Ok(1, [1, 0, [], None, 4096, 1, 0, b""]))
    while manager.turns.has_work:
        manager.turn()
    sent += far.hear()
    data = b"".join(x.data for x in sent if type(x) is m.Piece)
    assert records.decode(data).body == BODY
    last = sent[-1]
    assert (last.first_id, last.records, last.bodies) == (2, [b""], [[0, 1]])


def test_dialler_that_fetches_stores_pieces() -> None:
    lines = Lines(Manager(limits={"message_max_bytes": "4 MiB"}), connections=1, fetch=True)
    lines.app.ask(m.QueueCreate, "Q")
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    line.say(m.Ok(2, None))
    line.sent.clear()
    line.say(m.LinkOpen(1, b"N" * 16 + bytes(8), 1, 1, b"", 128))
    (ok,) = line.sent
    long = record(BODY, uid=("NYC", 5))
    for offset in range(0, len(long), PIECE_BYTES):
        line.say(m.Piece(1, len(long), offset, long[offset : offset + PIECE_BYTES]))
    line.say(m.Put(ok.value[0], 1, 0, "Q", [b""], bodies=[[0, 1]]))
    rest(lines)
    assert line.goaway is None
    assert lines.app.bodies("Q") == [BODY]


def test_peer_without_pieces_receives_the_whole_record(lines: Lines) -> None:
    lines.app.put("F@NYC", BODY)
    (line,) = lines.up()
    rest(lines)
    assert bodies(puts(line)) == [(1, BODY)]


def test_lost_connection_sends_the_message_again(lines: Lines) -> None:
    lines.app.put("F@NYC", BODY, b"2")
    line = up(lines)
    for _ in range(4):
        lines.turn()
    assert puts(line) == []
    line.hang_up()
    while not lines.dials:
        lines.turn(1_000)
    line = up(lines)
    rest(lines)
    assert bodies(puts(line)) == [(1, BODY), (2, b"2")]


def test_damaged_message_is_sent_as_an_id_without_one(lines: Lines) -> None:
    lines.app.put("F@NYC", BODY, b"2")
    key, row = lines.manager.scan(keys.SPACE_BODY)[300]
    tx = lines.manager.store.begin()
    tx.put(key, row[:-1] + bytes([row[-1] ^ 1]))
    lines.manager.store.commit()
    line = up(lines)
    rest(lines)
    found = puts(line)
    assert found[0] == (1, b"")
    assert bodies(found)[1:] == [(2, b"2")]
    assert lines.link.queue.counters.damaged == 1
    line.commit(2)
    rest(lines)
    assert lines.link.commit_id == 2


def test_message_that_another_path_delivered_is_sent_as_an_id_without_one() -> None:
    lines = Lines(Manager(limits={"message_max_bytes": "4 MiB"}), connections=2)
    lines.app.put("F@NYC", BODY)
    slow, fast = lines.up(piece_max_bytes=PIECE_BYTES)
    sender = lines.manager.turns.broker.context.piece_sender
    (number,) = sender._sends
    line, other = (slow, fast) if slow.number == number else (fast, slow)
    other.commit(1)  # As if the message had been sent over the other path as well.
    rest(lines)
    assert lines.link.commit_id == 1
    assert puts(line) == [(1, b"")]
    lines.put(1)
    rest(lines)
    assert bodies(puts(line) + puts(other)) == [(2, b"\0")]
    audit(lines.manager)
