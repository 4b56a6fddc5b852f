"""Tests of workers in threads with a real daemon, and of stop signals in a separate program."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, Message, connect, worker
from tests.qmgr_client.served import Server


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q")
        yield client


def test_worker_processes_as_many_at_a_time_as_its_concurrency(client: Client) -> None:
    """All runs of the function wait for each other. With fewer threads, all would wait for ever."""
    meeting = threading.Barrier(3, timeout=30)
    done: list[bytes] = []

    @worker("Q", concurrency=3)
    def bill(message: Message) -> None:
        meeting.wait()
        done.append(message.body)
        if len(done) == 6:
            client.stop_work()

    client.put_many("Q", [b"%d" % number for number in range(6)])
    client.work(bill)
    assert sorted(done) == [b"%d" % number for number in range(6)]
    assert client.admin.queue_show("Q")["depth"] == 0


def test_worker_may_use_the_client(client: Client) -> None:
    client.admin.queue_create("BILLS")

    @worker("Q")
    def bill(message: Message) -> None:
        client.put("BILLS", b"bill of " + message.body)
        client.stop_work()

    client.put("Q", b"pears")
    client.work(bill)
    message = client.get("BILLS")
    assert message is not None
    assert message.body == b"bill of pears"


def stopping_iteration() -> None:
    raise StopIteration("over")


def exiting() -> None:
    sys.exit("over")


@pytest.mark.parametrize(
    ("fail", "text"),
    [
        (lambda: int("x"), "invalid literal for int() with base 10: 'x'"),
        (stopping_iteration, "the worker raised StopIteration"),
        (exiting, "the worker raised SystemExit: over"),
    ],
)
def test_failure_is_logged_and_recorded(
    client: Client, caplog: pytest.LogCaptureFixture, fail: Callable[[], object], text: str
) -> None:
    """An exception in a function does not stop the client's thread."""

    @worker("Q")
    def bill(message: Message) -> None:
        client.stop_work()
        fail()

    client.put("Q", b"x")
    with caplog.at_level(logging.WARNING, "qmgr_client"):
        client.work(bill)
    assert text in caplog.text
    message = client.get("Q", wait_ms=5_000)
    assert message is not None
    assert (message.failed, message.attempts[0].text) == (1, text)


def test_close_ends_the_work(client: Client) -> None:
    begun, may_end = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    @worker("Q", concurrency=2)
    def bill(message: Message) -> None:
        begun.set()
        may_end.wait(30)

    def work() -> None:
        try:
            client.work(bill)
        except BaseException as error:
            raised.append(error)

    client.put("Q", b"x")
    working = threading.Thread(target=work)
    working.start()
    assert begun.wait(30)
    client.close()
    may_end.set()
    working.join(30)
    assert not working.is_alive()
    assert raised == []


PROGRAM = """
import sys
from qmgr_client.blocking import connect, worker

@worker("Q", concurrency=2)
def bill(message):
    print(f"begun {message.body.decode()}\\n", end="", flush=True)
    sys.stdin.readline()
    print(f"done {message.body.decode()}\\n", end="", flush=True)

with connect(sys.argv[1]) as queue_manager:
    queue_manager.work(bill)
print("closed", flush=True)
"""
ASYNC_PROGRAM = """
import asyncio, sys
from qmgr_client.aio import connect, worker

@worker("Q", concurrency=2)
async def bill(message):
    print(f"begun {message.body.decode()}\\n", end="", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(f"done {message.body.decode()}\\n", end="", flush=True)

async def main():
    async with connect(sys.argv[1]) as queue_manager:
        await queue_manager.work(bill)
    print("closed", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [PROGRAM, ASYNC_PROGRAM], ids=["blocking", "aio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_program_stops_in_good_order(tmp_path: Path, program: str, number: signal.Signals) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q")
        client.put_many("Q", [b"%d" % number for number in range(6)])
        command = [sys.executable, "-c", program, server.address]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            begun = sorted(process.stdout.readline() for _ in range(2))
            assert begun == ["begun 0\n", "begun 1\n"]
            os.kill(process.pid, number)
            while client.admin.queue_show("Q")["leased"] > 2:
                assert process.poll() is None
            process.stdin.close()  # Both functions continue.
            assert sorted(process.stdout) == ["closed\n", "done 0\n", "done 1\n"]
            assert process.stderr.read() == ""
        assert process.returncode == 0
        row = client.admin.queue_show("Q")
        assert (row["depth"], row["leased"]) == (4, 0)
        assert [message.redelivered for message in client.get_many("Q", 4)] == ["no"] * 4
