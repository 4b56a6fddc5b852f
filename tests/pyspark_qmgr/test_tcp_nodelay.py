"""Tests that TCP connections have no delays, and that nothing else is changed."""

import os
import pickle
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyspark_qmgr import tcp_nodelay
from pyspark_qmgr.reader import TableReader
from pyspark_qmgr.schema import schema_of
from pyspark_qmgr.tcp_nodelay import disable_tcp_delays
from qmgr_tables.option_parser import parse
from qmgr_tables.tables.registry import TABLES

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has these options"
)
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Yields both ends of a connection that delays acknowledgements."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        near = stack.enter_context(socket.create_connection(server.getsockname()))
        far = stack.enter_context(server.accept()[0])
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield near, far


def is_prompt(one: socket.socket) -> list[bool]:
    options = socket.TCP_NODELAY, socket.TCP_QUICKACK
    return [one.getsockopt(socket.IPPROTO_TCP, option) > 0 for option in options]


def test_all_connections_send_and_acknowledge_at_once(ends: Ends) -> None:
    assert [is_prompt(one) for one in ends] == [[False, False]] * 2
    disable_tcp_delays()
    assert [is_prompt(one) for one in ends] == [[True, True]] * 2


def test_connections_stay_open_and_blocking_and_no_descriptor_is_left(ends: Ends) -> None:
    before = set(os.listdir(tcp_nodelay.DESCRIPTORS))
    for _ in range(3):
        disable_tcp_delays()
    assert set(os.listdir(tcp_nodelay.DESCRIPTORS)) == before
    near, far = ends
    assert os.get_blocking(near.fileno())
    near.sendall(b"heard")
    assert far.recv(5) == b"heard"


def test_what_is_no_connection_of_tcp_does_not_matter(ends: Ends) -> None:
    with ExitStack() as stack:
        for one in (*socket.socketpair(), socket.socket(type=socket.SOCK_DGRAM)):
            stack.enter_context(one)
        disable_tcp_delays()
    assert is_prompt(ends[0]) == [True, True]


def test_nothing_is_touched_where_looking_would_set_a_timeout(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(5)
    try:
        disable_tcp_delays()
    finally:
        socket.setdefaulttimeout(before)
    assert os.get_blocking(ends[0].fileno())
    monkeypatch.delattr(socket, "TCP_QUICKACK")
    disable_tcp_delays()
    monkeypatch.undo()
    monkeypatch.setattr(tcp_nodelay, "DESCRIPTORS", "/nowhere")
    disable_tcp_delays()
    assert is_prompt(ends[0]) == [False, False]


def test_task_that_came_to_a_worker_is_prompt(ends: Ends) -> None:
    made = TableReader(parse({"path": "there"}), schema_of(TABLES["messages"]))
    there = pickle.loads(pickle.dumps(made))
    assert [is_prompt(one) for one in ends] == [[True, True]] * 2
    assert vars(there) == vars(made)
