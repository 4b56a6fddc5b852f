from pathlib import Path
from unittest.mock import patch

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.lean import ID, LeanSender, template
from qmgr_bench.qmgr import Wire, records
from qmgr_protocol import messages as m
from qmgr_protocol.pieces import PIECE_BYTES
from qmgr_protocol.states import State


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.process
def test_frame_made_beforehand_is_the_frame_but_for_its_id(host: Host) -> None:
    with host, Wire(host.address, "test") as wire:
        frame, id_at = template(wire, 3, "Q", [b"record"])
        number = 2**40  # an id that is encoded in eight bytes
        ID.pack_into(frame, id_at, number)
        assert frame == wire.connection.send(m.Put(3, number, 0, "Q", [b"record"]))


@pytest.mark.process
def test_lean_sender_puts_and_takes_answers_whole_or_in_pieces(host: Host) -> None:
    with host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, "Q")
        sender = LeanSender(wire, "Q", records([b"x" * 256])[0])
        for pieces in (1, 2, 7, 1):
            wire.sock.sendall(sender.put(1))
            answer = wire.sock.recv(4_096)
            size = -(-len(answer) // pieces)
            parts = [answer[at : at + size] for at in range(0, len(answer), size)]
            assert sum(sender.take(part) for part in parts) == 1
        assert host.depth("Q") == 4


@pytest.mark.process
def test_lean_sender_does_not_count_a_refusal(host: Host) -> None:
    with host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, "Q", {"depth_max": 1})
        sender = LeanSender(wire, "Q", records([b"x"])[0])
        wire.sock.sendall(sender.put(1))
        assert sender.take(wire.sock.recv(4_096)) == 1
        wire.sock.sendall(sender.put(1))
        with pytest.raises(LoadFailed, match="unexpected answer to put 2"):
            sender.take(wire.sock.recv(4_096))


@pytest.mark.process
def test_id_of_a_long_put_is_in_the_frame_after_its_pieces(host: Host) -> None:
    record = records([b"Z" * 600_000])[0]  # The body looks like the placeholder of the id.
    with host, Wire(host.address, "test") as wire:
        wire.welcome = wire.connection.welcome = wire.welcome._replace(piece_max_bytes=PIECE_BYTES)
        with patch.object(wire.connection, "_may_send", {m.Piece: State.OPEN, m.Put: State.OPEN}):
            frame, id_at = template(wire, 3, "Q", [record])
            ID.pack_into(frame, id_at, 2**40)
            expected = wire.frames(m.Put(3, 2**40, 0, "Q", [record]))
    assert len(expected) == 4
    assert frame == b"".join(expected)
