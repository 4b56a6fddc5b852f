"""The daemon on a slow disk: it serves during a flush, but nothing leaves before its record."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store import flush_time
from qmgrd.store.journal import JournalFile
from tests.qmgrd.core.harness import record
from tests.qmgrd.net.wire import Wire
from tests.qmgrd.test_daemon import Running, running

ID, OTHER = b"P" * 16, b"R" * 16


class Gate:
    """Lets the journal write a record only while it is open."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_open.set()
        self.fails = False
        self.waiting = threading.Event()
        self.numbers: list[int] = []  # the numbers of the records that were written

    def close(self) -> None:
        """Makes the next record wait."""
        self.waiting.clear()
        self._is_open.clear()

    def open(self) -> None:
        """Lets all records pass."""
        self._is_open.set()

    def open_soon(self) -> None:
        """Opens the gate from another thread, because the daemon waits and blocks the loop."""
        threading.Timer(0.05, self.open).start()

    def pass_through(self, number: int) -> None:
        """Waits until the gate is open."""
        self.waiting.set()
        assert self._is_open.wait(30)
        if self.fails:
            raise OSError(5, os.strerror(5))
        self.numbers.append(number)

    async def holds_a_record(self) -> None:
        """Returns after a record waits."""
        assert await asyncio.to_thread(self.waiting.wait, 30)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A disk that counts as slow, and whose records wait at a gate."""
    gate = Gate()
    append = JournalFile.append

    def appended(file: JournalFile, number: int, content: bytes) -> None:
        gate.pass_through(number)
        append(file, number, content)

    monkeypatch.setattr(JournalFile, "append", appended)
    for limit in ("SLOW_S", "FAST_S"):
        monkeypatch.setattr(flush_time, limit, -1.0)
    yield gate
    gate.open()


async def turns(here: Running, number: int) -> None:
    """Waits until the core has run turn *number*."""
    while here.daemon._turns.broker.context.turns < number:
        await asyncio.sleep(0)


async def test_turns_go_on_during_a_flush_and_answers_leave_in_order(
    tmp_path: Path, gate: Gate
) -> None:
    async with running(tmp_path) as here:
        one, two = await Wire.connect(here.address), await Wire.connect(here.address)
        await one.ask(m.QueueCreate, "Q")
        first = await one.ask(m.ProducerOpen, ID)
        second = await two.ask(m.ProducerOpen, OTHER)
        gate.close()
        one.send(m.Put(first[0], 1, 0, "Q", [record(b"1")]))
        await gate.holds_a_record()
        count, done = here.daemon._turns.broker.context.turns, here.store.durable
        two.send(m.Put(second[0], 1, 0, "Q", [record(b"2")]))
        await turns(here, count + 1)
        one.send(m.QueueShow(90, "Q"))
        await turns(here, count + 2)
        assert here.store.durable == done
        assert one.received == two.received == []
        assert len(here.daemon._turns._outcomes) == 3
        written = len(gate.numbers)
        gate.open()
        assert (await two.next(m.Committed)).commit_id == 1
        shown = await one.next(m.Ok)
        assert [type(message) for message in one.received] == [m.Committed]
        assert shown.value["depth"] == 2
        assert len(gate.numbers) == written + 2  # The second and the third turn share a record.
        assert not here.daemon._turns._outcomes
        await one.close()
        await two.close()


async def test_failed_record_ends_the_daemon_without_answers(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        await wire.ask(m.QueueCreate, "Q")
        stream = (await wire.ask(m.ProducerOpen, ID))[0]
        gate.close()
        wire.send(m.Put(stream, 1, 0, "Q", [record(b"1")]))
        await gate.holds_a_record()
        gate.fails = True
        gate.open()
        with pytest.raises(StoreFailed, match="the outcome of a turn is unknown"):
            await here.task
        assert wire.received == []
        await wire.close()


async def test_stop_waits_for_the_record_on_its_way(tmp_path: Path, gate: Gate) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        await wire.ask(m.QueueCreate, "Q")
        stream = (await wire.ask(m.ProducerOpen, ID))[0]
        gate.close()
        wire.send(m.Put(stream, 1, 0, "Q", [record(b"1")]))
        await gate.holds_a_record()
        here.daemon.stop()
        gate.open_soon()
        assert (await wire.next(m.Committed)).commit_id == 1
        await here.task
        await wire.close()


async def test_bug_in_a_turn_ahead_loses_no_turn_that_was_answered(
    tmp_path: Path, gate: Gate
) -> None:
    async with running(tmp_path) as here:
        one, two = await Wire.connect(here.address), await Wire.connect(here.address)
        await one.ask(m.QueueCreate, "Q")
        stream = (await one.ask(m.ProducerOpen, ID))[0]
        gate.close()
        one.send(m.Put(stream, 1, 0, "Q", [record(b"1")]))
        await gate.holds_a_record()

        def fail(broker: object) -> None:
            raise MemoryError("a planted bug")

        gate.open_soon()
        here.daemon._in_turn(fail)
        assert (await one.next(m.Goaway)).code == (await two.next(m.Goaway)).code
        again = await Wire.connect(here.address)
        assert (await again.ask(m.ProducerOpen, ID, True))[1] == 1
        assert (await again.ask(m.QueueShow, "Q"))["depth"] == 1
        for wire in (one, two, again):
            await wire.close()
