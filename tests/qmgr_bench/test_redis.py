from collections.abc import Iterator
from itertools import pairwise
from socket import socket
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_bench.load import LoadFailed
from qmgr_bench.redis import RedisReceiver, RedisSender, command

IDS = [b"1795245000123-0", b"1795245000123-1", b"1795245000124-0"]


def entry(message_id: bytes, body: bytes) -> bytes:
    return b"*2\r\n$%d\r\n%s\r\n*2\r\n$1\r\np\r\n$%d\r\n%s\r\n" % (
        len(message_id),
        message_id,
        len(body),
        body,
    )


NOBODY = cast(socket, None)  # The tests examine only the bytes, so no socket is needed.
READ = (
    b"*1\r\n*2\r\n$1\r\nq\r\n*3\r\n"
    + entry(IDS[0], b"a:1\r")
    + entry(IDS[1], b"\n*-1")
    + entry(IDS[2], b"-ERR")
)


def sender(*bodies: bytes) -> RedisSender:
    return RedisSender(NOBODY, b"q", bodies)


def receiver(*, batch: bool = False) -> RedisReceiver:
    return RedisReceiver(NOBODY, b"q", 256, 4, batch=batch)


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    bounds = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    for start, stop in pairwise(bounds):
        yield data[start:stop]


def test_command_is_resp() -> None:
    assert command(b"XDEL", b"q", b"1-0") == b"*3\r\n$4\r\nXDEL\r\n$1\r\nq\r\n$3\r\n1-0\r\n"


def test_puts_take_the_bodies_in_turn() -> None:
    adds = sender(b"a", b"b", b"c")
    bodies = [command(b"XADD", b"q", b"*", b"p", body) for body in (b"a", b"b", b"c")]
    assert adds.put(2) == bodies[0] + bodies[1]
    assert adds.put(3) == bodies[2] + bodies[0] + bodies[1]


@given(st.lists(st.integers(0, 1_000)))
def test_each_id_acknowledges_one_put_however_it_arrives(cuts: list[int]) -> None:
    adds = sender(b"a")
    data = b"".join(b"$%d\r\n%s\r\n" % (len(i), i) for i in IDS)
    assert sum(adds.take(piece) for piece in pieces(data, cuts)) == len(IDS)


@pytest.mark.parametrize("data", [b"-OOM no\r\n", b"$3\r\n1-0\r\n-OOM no\r\n"])
def test_refused_put_is_a_failure(data: bytes) -> None:
    with pytest.raises(LoadFailed, match="OOM no"):
        sender(b"a").take(data)


def test_read_is_acked_message_by_message_and_read_on() -> None:
    consumer = receiver()
    send, got, acked = consumer.take(READ)
    acks = b"".join(command(b"XACK", b"q", b"g", i) + command(b"XDEL", b"q", i) for i in IDS)
    assert (send, got, acked) == (acks + consumer.start(), 3, 0)
    assert consumer.take(b":1\r\n" * 6) == (b"", 0, 3)


def test_read_is_acked_at_once_in_a_batch() -> None:
    consumer = receiver(batch=True)
    send, _, _ = consumer.take(READ)
    assert send == (
        command(b"XACK", b"q", b"g", *IDS) + command(b"XDEL", b"q", *IDS) + consumer.start()
    )
    assert consumer.take(b":3\r\n:3\r\n") == (b"", 0, 3)


@given(st.lists(st.integers(0, 1_000)), st.booleans())
def test_bytes_in_pieces_decode_like_bytes_at_once(cuts: list[int], batch: bool) -> None:
    data = READ + b":1\r\n" * 6 + b"*-1\r\n" + READ + b":1\r\n" * 6
    whole, cut = receiver(batch=batch), receiver(batch=batch)
    found: list[Any] = [b"", 0, 0]
    for piece in pieces(data, cuts):
        if piece:
            found = [x + y for x, y in zip(found, cut.take(piece), strict=True)]
    assert tuple(found) == whole.take(data)


def test_error_of_a_consumer_is_a_failure() -> None:
    with pytest.raises(LoadFailed, match="NOGROUP"):
        receiver().take(b"-NOGROUP no such group\r\n")


@pytest.mark.parametrize("batch", [False, True])
def test_consumer_of_one_group_of_many_deletes_nothing(batch: bool) -> None:
    consumer = RedisReceiver(NOBODY, b"q", 256, 4, batch=batch, group=b"g7", deletes=False)
    assert b"$2\r\ng7\r\n" in consumer.start()
    send, _, _ = consumer.take(READ)
    each = [command(b"XACK", b"q", b"g7", i) for i in IDS]
    acks = command(b"XACK", b"q", b"g7", *IDS) if batch else b"".join(each)
    assert send == acks + consumer.start()
    assert consumer.take(b":3\r\n" if batch else b":1\r\n" * 3) == (b"", 0, 3)
