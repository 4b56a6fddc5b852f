import socket
from collections.abc import Iterator

import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.nats import INBOX, NatsReceiver, NatsSender

ANSWER = b'MSG _INBOX.a 1 9\r\n{"seq":1}\r\n'


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"INFO {}\r\nPONG\r\n")
    with ours, theirs:
        yield ours, theirs


def test_puts_are_counted_and_pings_answered(ends: tuple[socket.socket, socket.socket]) -> None:
    sender = NatsSender(ends[0], [b"x"])
    assert sender.put(1).endswith(b" 1\r\nx\r\n")
    ends[1].recv(4096)
    assert sender.take(ANSWER + b"PING\r\n" + ANSWER[:20]) == 1
    assert sender.take(ANSWER[20:]) == 1
    assert ends[1].recv(100) == b"PONG\r\n"
    with pytest.raises(LoadFailed, match="no space"):
        sender.take(b'MSG _INBOX.a 1 24\r\n{"error":"no space left"}\r\n')


def test_last_ack_of_a_burst_asks_for_an_answer(ends: tuple[socket.socket, socket.socket]) -> None:
    receiver = NatsReceiver(ends[0], 256)
    data = b"MSG s.q 1 $JS.ACK.1 2\r\n\r\n\r\nMSG s.q 1 $JS.ACK.2 1\r\ny\r\n"
    assert receiver.take(b"MSG _INBOX.a 2 2\r\n{}\r\n" + data[:30]) == (
        b"PUB $JS.ACK.1 _INBOX.a.c 4\r\n+ACK\r\n",
        1,
        0,
    )
    assert receiver.take(data[30:] + data) == (
        b"PUB $JS.ACK.2 4\r\n+ACK\r\nPUB $JS.ACK.1 4\r\n+ACK\r\n"
        b"PUB $JS.ACK.2 " + INBOX.encode() + b".c 4\r\n+ACK\r\n",
        3,
        0,
    )
    assert receiver.take(b"MSG _INBOX.a 2 0\r\n\r\n") == (b"", 0, 1)
    assert receiver.take(b"MSG _INBOX.a 2 0\r\n\r\n") == (b"", 0, 3)


def test_too_old_a_server_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from qmgr_bench import nats

    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(nats, "first_line", lambda *words: "nats-server: v2.9.10")
    assert nats.NatsServer().version() is None
    monkeypatch.setattr(nats, "first_line", lambda *words: "nats-server: v2.10.27")
    assert nats.NatsServer().version() == "NATS 2.10.27"


def test_consumer_that_is_made_beforehand_has_nothing_to_start(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    receiver = NatsReceiver(ends[0], 256, "c7")
    ends[1].sendall(b"MSG _INBOX.a.c7 2 2\r\n{}\r\n")
    receiver.make()
    assert b"CONSUMER.DURABLE.CREATE.q.c7 _INBOX.a.c7 " in ends[1].recv(4096)
    assert receiver.start() == b""
