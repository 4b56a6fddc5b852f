"""Tests of the methods of the blocking client, with a real daemon in a thread."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from qmgr_client.blocking import (
    Client,
    ConnectFailed,
    ConnectionEnded,
    Message,
    Outgoing,
    PutResult,
    RequestError,
    UnknownOutcome,
    connect,
)
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.served import Server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q")
        yield client


def test_message_makes_a_round_trip(client: Client) -> None:
    result = client.put("Q", b"apples", headers={"customer": "ann"})
    assert client.name == "QM1"
    message = client.get("Q")
    assert message is not None
    assert (message.body, message.uid) == (b"apples", result.uid)
    client.ack(message)
    assert client.get("Q") is None
    assert client.admin.queue_show("Q")["depth"] == 0


def test_client_finds_the_address_that_answers(tmp_path: Path) -> None:
    with (
        Server(tmp_path) as server,
        connect(f"unix:{tmp_path}/none.sock,{server.address}") as client,
    ):
        assert client.name == "QM1"
    with pytest.raises(ConnectFailed, match=r"none.sock: No such file or directory; unix:"):
        connect(f"unix:{tmp_path}/none.sock,{server.address}").open()


def test_refusal_has_its_code(client: Client) -> None:
    with pytest.raises(RequestError) as caught:
        client.put("NONE", b"x")
    assert caught.value.code == ErrorCode.QUEUE_UNKNOWN


def test_futures_are_for_threads(client: Client) -> None:
    futures = [client.submit("Q", b"%d" % number) for number in range(50)]
    stamps = [future.result(5).uid for future in futures]
    assert len(set(stamps)) == 50
    assert client.submit("NONE", b"x").exception(5).code == 300  # type: ignore[union-attr]
    messages = client.get_many("Q", 100)
    acks = [client.ack_soon(message) for message in messages]
    assert [ack.result(5) for ack in acks] == [None] * 50
    assert client.admin.queue_show("Q")["depth"] == 0


def test_batches(client: Client) -> None:
    results = client.put_many("Q", [b"a", Outgoing(b"b", priority=9), Outgoing(b"?", priority=10)])
    assert [type(result) for result in results] == [PutResult, PutResult, RequestError]
    assert [message.body for message in client.browse("Q")] == [b"b", b"a"]
    assert [message.body for message in client.browse("Q", 1)] == [b"b"]
    assert client.ack_many(client.get_many("Q", 5)) == [None, None]


def test_browse_goes_on_behind_a_message(client: Client) -> None:
    for number in range(4):
        client.put("Q", b"%d" % number, priority=4)
    second = list(client.browse("Q", 2))[-1]
    assert [message.body for message in client.browse("Q", after=second)] == [b"2", b"3"]
    assert [message.body for message in client.browse("Q", 1, after=second)] == [b"2"]


def test_browse_goes_on_over_its_batches(client: Client) -> None:
    client.put_many("Q", [b"%d" % number for number in range(350)])
    assert [int(message.body) for message in client.browse("Q")] == list(range(350))


def test_consumer_is_an_iterator(client: Client) -> None:
    client.put_many("Q", [b"%d" % number for number in range(20)])
    seen = []
    with client.consume("Q", prefetch=4) as consumer:
        for message in consumer:
            seen.append(int(message.body))
            client.ack(message)
            if len(seen) == 20:
                break
    assert seen == list(range(20))
    assert next(consumer, None) is None


def test_released_message_comes_again(client: Client) -> None:
    client.put("Q", b"x")
    first = client.get("Q")
    assert first is not None
    client.release(first)
    second = client.get("Q", wait_ms=5_000)
    assert second is not None
    assert second.failed == 1


def test_threads_share_a_client(client: Client) -> None:
    threads = [
        threading.Thread(target=lambda: [client.put("Q", b"x") for _ in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.admin.queue_show("Q")["depth"] == 40


def test_connection_lives_while_the_application_is_busy(tmp_path: Path) -> None:
    with (
        Server(tmp_path, heartbeat_ms=100, liveness_ms=500) as server,
        connect(server.address, reconnect=False) as client,
    ):
        client.admin.queue_create("Q")
        # The test must sleep for longer than the liveness limit.
        threading.Event().wait(1.5)
        client.put("Q", b"x")


def test_refused_connection_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with (
        pytest.raises(ConnectFailed, match="is qmgrd running there"),
        connect(f"unix:{tmp_path}/none"),
    ):
        pass
    assert threading.active_count() == before


def test_closed_client_raises(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        client = connect(server.address)
        with client:
            client.admin.queue_create("Q")
        client.close()
        with pytest.raises(ConnectionEnded, match="was closed"):
            client.put("Q", b"x")


def test_close_waits_for_what_is_under_way(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        with connect(server.address) as client:
            client.admin.queue_create("Q")
            futures = [client.submit("Q", b"x") for _ in range(20)]
        assert all(future.result(0).uid for future in futures)


def test_call_that_races_with_close_ends(tmp_path: Path) -> None:
    """One thread may close a shared client while other threads are in a call."""
    with Server(tmp_path) as server:
        with connect(server.address) as client:
            client.admin.queue_create("Q")
        for _ in range(20):
            client = connect(server.address)
            client.open()
            threads = [threading.Thread(target=_put_until_closed, args=[client]) for _ in range(4)]
            for thread in threads:
                thread.start()
            client.put("Q", b"x")
            client.close()
            for thread in threads:
                thread.join(20)
                assert not thread.is_alive()


def _put_until_closed(client: Client) -> None:
    with contextlib.suppress(ConnectionEnded, UnknownOutcome):
        while True:
            client.put("Q", b"x")


def test_fork_has_to_connect_again(client: Client) -> None:
    """A forked process does not have the client's thread, so a call would never return."""
    child = os.fork()
    if child == 0:
        try:
            client.put("Q", b"x")
        except ConnectionEnded as error:
            client.close()
            os._exit(0 if "opened in another process" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.put("Q", b"x").uid is not None


def test_callback_may_not_wait_for_the_client(client: Client) -> None:
    """The callback runs on the thread that would have to process the answer."""
    errors: list[str] = []
    over = threading.Event()

    def call_back(future: "Future[PutResult]") -> None:
        try:
            client.put("Q", b"again")
        except RuntimeError as error:
            errors.append(str(error))
        over.set()

    client.submit("Q", b"x").add_done_callback(call_back)
    assert over.wait(60)
    assert "own thread" in errors[0]
    assert client.put("Q", b"y").uid is not None


def test_many_may_close(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        client = connect(server.address)
        client.open()
        closing = [threading.Thread(target=client.close, args=[0]) for _ in range(4)]
        for thread in closing:
            thread.start()
        client.close()
        for thread in closing:
            thread.join(60)
            assert not thread.is_alive()


ITERATIONS: dict[str, Callable[[Client], AbstractContextManager[Iterator[Message]]]] = {
    "consumer": lambda client: client.consume("Q"),
    "subscription": lambda client: client.subscribe("a/#"),
}


@pytest.mark.parametrize("iteration", ITERATIONS)
def test_close_ends_the_loops_of_other_threads(tmp_path: Path, iteration: str) -> None:
    """Loops that wait for a message inside a with block end without an exception."""
    raised: list[BaseException] = []
    waiting = threading.Barrier(4, timeout=30)
    with Server(tmp_path) as server:
        client = connect(server.address)
        client.open()
        client.admin.queue_create("Q")

        def consume() -> None:
            try:
                with ITERATIONS[iteration](client) as messages:
                    waiting.wait()
                    assert list(messages) == []
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=consume) for _ in range(3)]
        for thread in threads:
            thread.start()
        waiting.wait()
        client.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert raised == []


@pytest.mark.parametrize("iteration", ITERATIONS)
def test_loop_that_goes_on_after_a_close_ends(client: Client, iteration: str) -> None:
    with ITERATIONS[iteration](client) as messages:
        client.close()
        assert list(messages) == []


def test_close_under_work_lets_its_ack_say_so(tmp_path: Path) -> None:
    """The loop ends. The ack of its current message fails, and the message is redelivered."""
    raised: list[str] = []
    begun, closed = threading.Event(), threading.Event()
    with Server(tmp_path) as server:
        client = connect(server.address)
        client.open()
        client.admin.queue_create("Q")
        client.put_many("Q", [b"1", b"2"])

        def consume() -> None:
            for message in client.consume("Q"):
                begun.set()
                closed.wait(30)
                try:
                    client.ack(message)
                except ConnectionEnded as error:
                    raised.append(str(error))

        thread = threading.Thread(target=consume)
        thread.start()
        assert begun.wait(30)
        client.close()
        closed.set()
        thread.join(30)
        assert not thread.is_alive()
        with connect(server.address) as client:
            assert [message.body for message in client.get_many("Q", 2)] == [b"1", b"2"]
    assert raised == ["CANCELLED: the client was closed"]


def test_loop_over_a_client_that_an_operator_closed_raises(client: Client, tmp_path: Path) -> None:
    """A loop ends without an error only if the application itself closes the client."""
    consumer = client.consume("Q")
    with connect(f"unix:{tmp_path}/qmgrd.sock", name="operator") as operator:
        rows = operator.admin.connection_list()
        (number,) = [row["connection"] for row in rows if row["name"] != "operator"]
        operator.admin.connection_close(number)
    with pytest.raises(ConnectionEnded, match="ended the connection"):
        next(consumer)


PROGRAM = """
import sys, threading
from qmgr_client.blocking import connect

def consume(client):
    with client.consume("Q") as messages:
        for message in messages:
            client.ack(message)
            seen.release()

seen = threading.Semaphore(0)
with connect(sys.argv[1]) as client:
    threads = [threading.Thread(target=consume, args=[client]) for _ in range(3)]
    for thread in threads:
        thread.start()
    client.put_many("Q", [b"x"] * 30)
    for _ in range(30):
        seen.acquire()
for thread in threads:
    thread.join()
"""


def test_program_that_closes_under_its_threads_prints_nothing(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        with connect(server.address) as client:
            client.admin.queue_create("Q")
        command = [sys.executable, "-c", PROGRAM, server.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
