import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from unittest.mock import patch

import pytest

from qmgr_bench import qmgr
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.qmgr import POOL, POOL_BYTES, QmgrReceiver, QmgrSender, Wire, bodies, records
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.pieces import PIECE_BYTES
from qmgr_protocol.record import decode
from qmgr_protocol.states import Side
from tests.qmgr_tools.conftest import Daemon

pytestmark = pytest.mark.process
FOREVER_S = float("inf")


def test_bodies_are_the_same_each_time_and_differ_if_they_are_to() -> None:
    varied, same = bodies(32, vary=True), bodies(32, vary=False)
    assert len(varied) == len(same) == POOL
    assert len(set(varied)) > POOL // 2
    assert len(set(same)) == 1
    assert {len(body) for body in varied} == {32}
    assert bodies(32, vary=True) == varied


def test_records_carry_body_and_priority() -> None:
    record = records([b"x"], priority=9)[0]
    assert (decode(record).body, decode(record).priority) == (b"x", 9)


def test_pool_of_large_messages_takes_little_memory() -> None:
    pool = records(bodies(8 << 20, vary=True))
    different = {id(record): len(record) for record in pool}
    assert len(pool) == POOL
    assert len(different) > 1
    assert sum(different.values()) <= POOL_BYTES + (1 << 20)


@pytest.mark.parametrize("coalesce", [True, False])
@pytest.mark.parametrize("producers", [1, 3])
def test_all_that_is_put_is_got_once(own_daemon: Daemon, coalesce: bool, producers: int) -> None:
    pool = records(bodies(20, vary=True))
    with ExitStack() as wires, Wire(own_daemon.unix, "control") as control:
        control.ask(m.QueueCreate, "Q")
        senders = [
            QmgrSender(
                wires.enter_context(Wire(own_daemon.tcp, f"p{i}")), "Q", pool, coalesce=coalesce
            )
            for i in range(producers)
        ]
        receiver = QmgrReceiver(wires.enter_context(Wire(own_daemon.unix, "c")), "Q", 50)
        outcome = Load(Plan(64, FOREVER_S, 5_000), senders, receiver).run()
        row = control.ask(m.QueueShow, "Q")
    assert outcome.messages == 5_000
    assert (row["puts"], row["acked"], row["depth"]) == (5_000, 5_000, 0)
    travelled = outcome.end_to_end.percentile_ms(50)
    assert (travelled is None) == (producers > 1)
    assert outcome.put.percentile_ms(50) is not None
    assert outcome.ack.percentile_ms(99) is not None


def test_bytes_of_credit_are_given_back(
    own_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In total, a consumer can receive more bytes than its credit."""
    monkeypatch.setattr(qmgr, "CREDIT_BYTES", 1_000)
    pool = records(bodies(100, vary=True))
    with Wire(own_daemon.unix, "p") as put, Wire(own_daemon.unix, "c") as get:
        put.ask(m.QueueCreate, "Q")
        sender = QmgrSender(put, "Q", pool, coalesce=True)
        plan = Plan(64, FOREVER_S, 500, seconds_max=10)
        outcome = Load(plan, [sender], QmgrReceiver(get, "Q", 50)).run()
    assert (outcome.messages, outcome.is_cut) == (500, False)


def test_refused_put_ends_the_run(own_daemon: Daemon) -> None:
    with Wire(own_daemon.unix, "control") as control, Wire(own_daemon.unix, "p") as wire:
        control.ask(m.QueueCreate, "Q", {"depth_max": 10})
        sender = QmgrSender(wire, "Q", records(bodies(1, vary=False)), coalesce=True)
        with pytest.raises(LoadFailed, match="queue Q is full: it has 10 messages"):
            Load(Plan(64, FOREVER_S, 1_000), [sender]).run()


def test_refused_request_is_raised(own_daemon: Daemon) -> None:
    with Wire(own_daemon.unix, "control") as control:
        with pytest.raises(RequestError) as refusal:
            control.ask(m.QueueShow, "Q")
        assert refusal.value.code == ErrorCode.QUEUE_UNKNOWN
        assert control.cpu_ms() > 0


def test_long_record_is_sent_and_received_in_pieces() -> None:
    """A consumer returns the credit for all bytes of the record."""
    near, far = socket.socketpair()
    listener = Connection(Side.LISTENER)

    def answer() -> None:
        listener.receive(far.recv(4_096), 0)
        welcome = m.Welcome(1, "QM", b"s" * 16, 1, piece_max_bytes=PIECE_BYTES)
        far.sendall(listener.send(welcome))
        listener.receive(far.recv(4_096), 0)
        far.sendall(listener.send(m.Ok(1, [1, 0, []])))

    with ThreadPoolExecutor() as pool, near, far, patch.object(qmgr, "dial", return_value=near):
        answered = pool.submit(answer)
        wire = Wire("unix:/x", "test")
        record = records([b"x" * 600_000])[0]
        sender = QmgrSender(wire, "Q", [record] * POOL, coalesce=True)
        answered.result()
        *pieces, put = [message for message, _ in listener.receive(sender.put(1), 0)]
        assert b"".join(piece.data for piece in pieces) == record  # type: ignore[union-attr]
        assert put == m.Put(1, 1, 0, "Q", [b""], [], [[0, 1]])
        receiver = QmgrReceiver(wire, "Q", 10)
        head = m.DELIVERY.pack(4, 1, 1, 0, 0, 0, 0)
        frames = [listener.send(piece) for piece in pieces]  # type: ignore[arg-type]
        frames.append(listener.send(m.Deliver(2, 3, [head], [[0, 1]])))
        acks, got, _ = receiver.take(b"".join(frames))
        credit = listener.receive(acks, 0)[-1][0]
    assert got == 1
    assert credit == m.Credit(2, 1, m.DELIVERY_BYTES + len(record))
