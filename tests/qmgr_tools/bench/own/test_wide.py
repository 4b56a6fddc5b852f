import resource
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_tools.bench.host import Host
from qmgr_tools.bench.load import LoadFailed
from qmgr_tools.bench.own.wide import ID, LeanSender, Wide, allow_files, c1000, template
from qmgr_tools.bench.qmgr import Wire, records
from qmgr_tools.bench.setting import Setting

WIDE = Wide(1_000, 50_000, 100_000, 40_000, 0.5, 1.25, 20, 25, 30, 8, 10, 0.4, 0.5)


def test_wide_is_to_be_as_fast_as_w1b_and_not_held_up_by_the_generator() -> None:
    assert [target.reached for target in WIDE.targets()] == [False, False]
    assert [target.missing_percent for target in WIDE.targets()] == [50, 25]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.process
def test_frame_made_beforehand_is_the_frame_but_for_its_id(host: Host) -> None:
    with host, Wire(host.address, "test") as wire:
        before, after = template(wire, 3, "Q", [b"record"])
        number = 2**40  # An id that takes eight bytes anyway.
        assert before + ID.pack(number) + after == wire.connection.send(
            m.Put(3, number, 0, "Q", [b"record"])
        )


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
        with pytest.raises(LoadFailed, match="not the answer to put 2"):
            sender.take(wire.sock.recv(4_096))


@pytest.mark.process
def test_connections_are_measured_beside_w1b(tmp_path: Path) -> None:
    found = c1000(Setting(tmp_path, 0.1, 1, 0.01))
    assert found.connections == 10
    assert min(found.put_per_s, found.put_per_s_w1b, found.put_per_s_w1b_1, found.ratio) > 0
    assert 0 < found.server_share < 2
    assert 0 < found.p50_ms <= found.p99_ms <= found.p999_ms


def test_files_that_the_system_does_not_allow_are_told() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(LoadFailed, match=f"ulimit -Hn allows {hard}"):
        allow_files(hard + 1)
    allow_files(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1
