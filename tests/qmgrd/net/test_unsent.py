"""Tests that unread answers use limited memory, and that the worst peers are disconnected first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd import daemon as daemons
from qmgrd.net.unsent import STALLED_LOOKS, Unsent
from tests.qmgrd.core.harness import record
from tests.qmgrd.net.wire import Wire
from tests.qmgrd.test_daemon import ID, Running, running

MIB = 1 << 20
LIMITS = {
    "frame_max_bytes": 2 * MIB,
    "message_max_bytes": MIB,
    "put_window_bytes": 2 * MIB,
    "buffers_max_bytes": 16 * MIB,
}
BOUND = 8 * MIB  # half of the limit
BODY = bytes(900_000)


@asynccontextmanager
async def store(tmp_path: Path) -> AsyncIterator[tuple[Running, Wire]]:
    """Yields a daemon with a large message on Q, and a well-behaved client."""
    async with running(tmp_path, limits=LIMITS) as here:
        good = await Wire.connect(here.address, "good")
        await good.ask(m.QueueCreate, "Q")
        await good.ask(m.QueueCreate, "SMALL")
        await good.put(ID, "Q", record(BODY))
        await good.put(b"S" * 16, "SMALL", record(b"small"))
        yield here, good
        await good.close()


async def deaf(address: str, requests: int = 30) -> Wire:
    """Returns a client that browses but reads nothing."""
    wire = await Wire.connect(address, "deaf")
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    wire.send(*(m.Browse(number, "Q") for number in range(1, requests + 1)))
    return wire


def unsent_bytes(here: Running) -> int:
    return sum(session.unsent_bytes() for session in here.daemon._sessions.values())


async def tight(here: Running) -> None:
    """Waits until no space for the longest frame is left."""
    while not here.daemon.unsent.is_room_short:
        assert unsent_bytes(here) < BOUND
        await asyncio.sleep(0)


async def test_peer_that_fetches_nothing_is_sent_no_more_until_it_does(tmp_path: Path) -> None:
    async with store(tmp_path) as (here, good):
        slow = await deaf(here.address)
        while unsent_bytes(here) < MIB:
            await asyncio.sleep(0)
        for _ in range(20):
            await good.ask(m.Status)
            assert unsent_bytes(here) < 4 * MIB
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(1, 31):
            assert (await slow.next(m.Ok)).request_id == number
        await slow.close()


async def test_many_that_fetch_nothing_take_bounded_memory(tmp_path: Path) -> None:
    async with store(tmp_path) as (here, good):
        wires = [await deaf(here.address) for _ in range(30)]
        await tight(here)
        for _ in range(20):
            await good.ask(m.Status)
            assert unsent_bytes(here) < BOUND
        good.send(m.Get(50, "SMALL"))
        assert len((await good.next(m.Deliver)).items) == 1
        for wire in wires:
            await wire.close()


async def test_those_that_fetch_nothing_are_cut_off_and_others_get_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "LOOK_S", 0.02)
    with capture_logs() as logs:
        async with store(tmp_path) as (here, good):
            wires = [await deaf(here.address) for _ in range(30)]
            await tight(here)
            good.send(m.Get(50, "Q"))
            assert len((await good.next(m.Deliver)).items) == 1
            for wire in wires:
                await wire.close()
    told = [log for log in logs if log["event"] == "connection closed"]
    assert {(log["peer"], log["code"]) for log in told} == {("deaf", ErrorCode.CREDIT_EXCEEDED)}
    assert "bytes of replies unread; the limit of all connections" in told[0]["why"]


async def test_slow_reader_within_its_share_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "LOOK_S", 0.02)
    async with store(tmp_path) as (here, good):
        slow = await Wire.connect(here.address, "slow")
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        slow.send(m.Status(1))
        wires = [await deaf(here.address) for _ in range(30)]
        await tight(here)
        good.send(m.Get(50, "Q"))
        await good.next(m.Deliver)
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert (await slow.next(m.Ok)).request_id == 1
        for wire in (slow, *wires):
            await wire.close()


async def test_answer_that_waited_for_room_is_made_once_others_have_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "LOOK_S", 0.02)
    async with store(tmp_path) as (here, good):
        unsent = here.daemon.unsent
        unsent._bytes = unsent._count_at = BOUND - 1_000  # as if written since the last count
        good.send(m.Browse(60, "Q"))
        async with asyncio.timeout(10):
            assert (await good.next(m.Ok)).request_id == 60


async def test_reader_that_gets_on_is_cut_off_only_after_patience_ends(tmp_path: Path) -> None:
    async with store(tmp_path) as (here, _):
        wires = [await deaf(here.address) for _ in range(30)]
        await tight(here)
        unsent, now_ms = here.daemon.unsent, here.daemon.now_ms()
        count = len(here.daemon._sessions)

        def fetch() -> None:
            """Counts unsent bytes as if each peer had read some of them between two checks."""
            for session in here.daemon._sessions.values():
                session._written_bytes += MIB

        for look in range(20):
            fetch()
            unsent.tick(now_ms + look)
        assert len([s for s in here.daemon._sessions.values() if not s._is_cut_off]) == count
        fetch()
        unsent.tick(now_ms + 30_000)
        assert len([s for s in here.daemon._sessions.values() if not s._is_cut_off]) < count
        for wire in wires:
            await wire.close()


class Fetching:
    """A connection with many unsent bytes, of which the peer reads *fetches* between two checks."""

    def __init__(self, fetches: int) -> None:
        self.fetches, self.fetched, self.is_cut_off = fetches, 0, False

    def unsent_bytes(self) -> int:
        return MIB

    def fetched_bytes(self) -> int:
        self.fetched += self.fetches
        return self.fetched

    def cut_off(self, goaway: m.Goaway) -> None:
        self.is_cut_off = True


@pytest.mark.parametrize("is_ahead", [False, True])
def test_peer_that_fetches_nothing_is_cut_off_where_requests_cannot_continue(
    is_ahead: bool,
) -> None:
    stuck, slow = Fetching(0), Fetching(MIB)
    sessions: Any = {1: stuck, 2: slow}
    unsent = Unsent(64 * MIB, MIB, 30_000, sessions)
    for look in range(STALLED_LOOKS + 1):
        assert not stuck.is_cut_off
        unsent.tick(look, is_ahead=is_ahead)
    assert (stuck.is_cut_off, slow.is_cut_off) == (is_ahead, False)
