import struct
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket, socketpair

import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.postgres import (
    INSERTED,
    READY,
    SYNC,
    PostgresReceiver,
    PostgresSender,
    execute,
    message,
    messages,
)

REFUSED = message(b"E", b"SERROR\0Mdisk full\0\0")
DONE = message(b"2") + message(b"C", b"COMMIT\0") + message(b"C", b"BEGIN\0")


@contextmanager
def ready() -> Iterator[socket]:
    ours, theirs = socketpair()
    theirs.sendall(READY)
    with ours, theirs:
        yield ours


def row(number: int, body: bytes) -> bytes:
    return message(b"D", struct.pack(">HIqI", 2, 8, number, len(body)), body)


def kinds(data: bytes) -> bytes:
    return b"".join(kind for kind, _, _ in messages(data))


@pytest.mark.parametrize(("group", "sent"), [(1, b"BESBESBES"), (2, b"BEBESBES")])
def test_puts_count_once_their_transaction_is_committed(group: int, sent: bytes) -> None:
    with ready() as sock:
        sender = PostgresSender(sock, [b"a", b"b", b"c"], group)
        assert kinds(sender.put(3)) == sent
        answers = INSERTED * group + READY
        assert sender.take(answers[:-1]) == 0
        assert sender.take(answers[-1:]) == group
        with pytest.raises(LoadFailed, match="disk full"):
            sender.take(REFUSED)


@pytest.mark.parametrize(("batch", "deletes"), [(False, 2), (True, 1)])
def test_read_is_deleted_in_its_transaction_and_read_on(batch: bool, deletes: int) -> None:
    with ready() as sock:
        receiver = PostgresReceiver(sock, 256, batch=batch)
    data = row(7, b"x") + row(8, b"y") + READY
    assert receiver.take(data[:-1])[1:] == (2, 0)
    send, got, acked = receiver.take(data[-1:])
    assert (got, acked) == (0, 0)
    assert send.count(b"d\0") == deletes
    assert struct.pack(">q", 7) in send
    assert send.endswith(execute(b"c") + receiver.start())
    assert receiver.take(DONE)[1:] == (0, 2)
    idle, _, _ = receiver.take(READY)
    assert execute(b"w") in idle
    assert idle.endswith(SYNC)
    with pytest.raises(LoadFailed, match="disk full"):
        receiver.take(REFUSED)
