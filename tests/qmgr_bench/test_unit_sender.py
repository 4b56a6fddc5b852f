import pytest

from qmgr_bench.load import READ_BYTES, Load, LoadFailed, Plan
from qmgr_bench.qmgr import Wire, bodies, records
from qmgr_bench.unit_sender import UnitSender
from qmgr_protocol import messages as m
from tests.qmgr_tools.conftest import Daemon

pytestmark = pytest.mark.process
FOREVER_S = float("inf")


@pytest.mark.parametrize(("unit", "size"), [(1, 20), (64, 20), (200, 20), (3, 200_000)])
def test_each_message_put_in_a_unit_is_stored_once(
    own_daemon: Daemon, unit: int, size: int
) -> None:
    with Wire(own_daemon.unix, "control") as control, Wire(own_daemon.tcp, "p") as wire:
        control.ask(m.QueueCreate, "Q")
        sender = UnitSender(wire, "Q", records(bodies(size, vary=False)), unit)
        outcome = Load(Plan(max(unit, 10), FOREVER_S, 250 if size < 100 else 12), [sender]).run()
        row = control.ask(m.QueueShow, "Q")
    assert outcome.messages == outcome.put.count == row["puts"] == row["depth"]
    assert row["held"] == 0


def test_nothing_is_answered_before_the_commit(own_daemon: Daemon) -> None:
    with Wire(own_daemon.unix, "control") as control, Wire(own_daemon.tcp, "p") as wire:
        control.ask(m.QueueCreate, "Q")
        sender = UnitSender(wire, "Q", records(bodies(20, vary=False)), 5)
        frames, commit = sender.put(5), wire.connection.send(m.UnitCommit(1, 1, 0, 1, 5, 0))
        assert frames.endswith(commit)
        wire.sock.sendall(frames.removesuffix(commit))
        # These are the answers to the begin and the put.
        assert [type(wire.next()) for _ in range(2)] == [m.Ok, m.Ok]
        row = control.ask(m.QueueShow, "Q")
        assert (row["depth"], row["held"]) == (0, 5)
        wire.sock.sendall(commit)
        assert sender.take(wire.sock.recv(READ_BYTES)) == 5
        assert control.ask(m.QueueShow, "Q")["depth"] == 5


@pytest.mark.parametrize(
    ("attributes", "unit", "error"),
    [
        ({"depth_max": 1}, 2, "a put was refused: "),
        ({}, 2_001, "would exceed its limit of 2000 messages, with 2001"),
    ],
)
def test_refusal_is_reported(
    own_daemon: Daemon, attributes: dict[str, int], unit: int, error: str
) -> None:
    with Wire(own_daemon.unix, "control") as control, Wire(own_daemon.tcp, "p") as wire:
        control.ask(m.QueueCreate, "Q", attributes)
        sender = UnitSender(wire, "Q", records(bodies(20, vary=False)), unit)
        with pytest.raises(LoadFailed, match=error):
            Load(Plan(unit, FOREVER_S, unit), [sender]).run()
