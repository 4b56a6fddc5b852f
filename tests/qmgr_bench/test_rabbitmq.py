import struct
from collections.abc import Iterator
from itertools import pairwise
from socket import socket
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_bench.load import LoadFailed
from qmgr_bench.rabbitmq import (
    BODY,
    HEADER,
    RabbitReceiver,
    RabbitSender,
    frame,
    frames,
    method,
    publish,
    short,
)

NOBODY = cast(socket, None)  # The tests examine only the bytes, so no socket is needed.


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    bounds = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    for start, stop in pairwise(bounds):
        yield data[start:stop]


def confirm(tag: int, *, several: bool = False) -> bytes:
    return method(60, 80, struct.pack(">QB", tag, several))


def deliver(tag: int, body: bytes) -> bytes:
    start = method(60, 60, short("c") + struct.pack(">QB", tag, 0) + short("") + short("q"))
    header = frame(HEADER, struct.pack(">HHQH", 60, 0, len(body), 0))
    return start + header + frame(BODY, body[:3]) + frame(BODY, body[3:])


def test_put_is_a_method_a_header_and_the_body_in_frames() -> None:
    kinds = [(kind, len(payload)) for kind, payload, _ in frames(publish(bytes(200_000)))]
    assert [kind for kind, _ in kinds] == [1, 2, 3, 3]
    assert sum(size for kind, size in kinds if kind == 3) == 200_000


@given(st.lists(st.integers(0, 1_000)))
def test_confirms_in_any_order_and_several_at_once(cuts: list[int]) -> None:
    data = (
        confirm(2) + confirm(5) + confirm(4, several=True) + confirm(6) + confirm(8, several=True)
    )
    sender = RabbitSender(NOBODY, [b"x"])
    assert sum(sender.take(piece) for piece in pieces(data, cuts)) == 8


def test_refused_put_is_a_failure() -> None:
    closed = method(20, 40, struct.pack(">H", 404) + short("no queue") + bytes(4))
    with pytest.raises(LoadFailed, match="no queue"):
        RabbitSender(NOBODY, [b"x"]).take(closed)


@given(st.lists(st.integers(0, 1_000)))
def test_each_message_is_acked_and_counts_behind_the_fence(cuts: list[int]) -> None:
    receiver = RabbitReceiver(NOBODY)
    started = method(60, 21, short("c"))
    sent, got = b"", 0
    for piece in pieces(started + deliver(1, b"abcdef") + deliver(2, b"ghijkl"), cuts):
        send, count, acked = receiver.take(piece)
        sent, got = sent + send, got + count
        assert acked == 0
    methods = [struct.unpack_from(">HH", payload) for _, payload, _ in frames(sent)]
    assert (got, methods.count((60, 80))) == (2, 2)
    fences = methods.count((60, 10))
    assert receiver.take(method(60, 11, b"") * fences) == (b"", 0, 2)
