"""Tests that incomplete frames use limited memory, and that every good sender gets a turn."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.frame import LENGTH
from qmgrd import daemon as daemons
from qmgrd.core.intake import Intake
from qmgrd.core.limits.put_rates import PutRate, PutRates
from qmgrd.net import large_frames
from qmgrd.net.large_frames import LargeFrames
from tests.qmgrd.core.harness import record
from tests.qmgrd.net.wire import Wire
from tests.qmgrd.test_daemon import ID, Running, running

MIB = 1 << 20
LIMITS = {
    "frame_max_bytes": MIB,
    "message_max_bytes": MIB // 2,
    "put_window_bytes": MIB,
    "buffers_max_bytes": 4 * MIB,
}
BOUND = 2 * MIB  # half of the limit


async def half(address: str, frame_bytes: int = MIB) -> Wire:
    """Returns a connection that has sent half of a frame."""
    wire = await Wire.connect(address, "half")
    wire.writer.write(LENGTH.pack(frame_bytes) + bytes(frame_bytes // 2))
    return wire


def held_bytes(here: Running) -> int:
    return sum(session.peer.partial_bytes for session in here.daemon._sessions.values())


async def settled(here: Running, count: int) -> None:
    """Waits until *count* frames wait for space."""
    while len(here.daemon.frames._waiting) < count:
        assert held_bytes(here) < BOUND
        await asyncio.sleep(0)


async def test_half_frames_of_many_connections_take_bounded_memory(tmp_path: Path) -> None:
    async with running(tmp_path, limits=LIMITS) as here:
        wires = [await half(here.address) for _ in range(20)]
        await settled(here, 19)
        good = await Wire.connect(here.address, "good")
        await good.ask(m.QueueCreate, "Q")
        await good.put(ID, "Q", record(bytes(10_000)))
        assert held_bytes(here) < BOUND
        for wire in (good, *wires):
            await wire.close()
        while here.daemon._sessions:
            await asyncio.sleep(0)
        assert here.daemon.frames.bytes == 0


async def test_stalled_frame_loses_its_space_to_a_complete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "LOOK_S", 0.02)
    with capture_logs() as logs:
        async with running(tmp_path, limits=LIMITS) as here:
            wires = [await half(here.address) for _ in range(3)]
            await settled(here, 2)
            good = await Wire.connect(here.address, "good")
            await good.ask(m.QueueCreate, "Q")
            committed = await good.put(ID, "Q", *[record(bytes(400_000))] * 2)
            assert committed.refused == []
            for wire in (good, *wires):
                await wire.close()
    told = [log["why"] for log in logs if log["event"] == "connection closed"]
    assert all("a frame of 1048580 bytes stopped after" in why for why in told)
    assert told


@pytest.mark.parametrize("is_held", [False, True])
async def test_frame_that_waits_for_the_turns_keeps_its_place_unless_its_sender_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    async with running(tmp_path, limits=LIMITS) as here:
        wires = [await half(here.address) for _ in range(3)]
        await settled(here, 2)
        frames = here.daemon.frames
        (placed,) = frames._placed
        monkeypatch.setattr(type(placed.peer), "is_ahead", True)
        if is_held:
            frames.intake._held[placed.peer.number] = frames.intake.of(placed.peer.number)
        for _ in range(3):
            frames.tick()
        assert (placed in frames._placed) is not is_held
        monkeypatch.undo()
        for wire in wires:
            await wire.close()


async def test_stalled_frame_keeps_its_space_if_no_other_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "LOOK_S", 0.01)
    async with running(tmp_path, limits=LIMITS) as here:
        wire = await half(here.address)
        while not here.daemon.frames._placed:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert len(here.daemon._sessions) == 1
        await wire.close()


async def test_frame_that_waited_is_read_to_its_end(tmp_path: Path) -> None:
    async with running(tmp_path, limits=LIMITS) as here:
        good = await Wire.connect(here.address, "good")
        await good.ask(m.QueueCreate, "Q")
        first, second = await half(here.address), await half(here.address)
        await settled(here, 1)
        stream = (await good.ask(m.ProducerOpen, ID))[0]
        good.send(m.Put(stream, 1, 0, "Q", [record(bytes(400_000))] * 2))
        await settled(here, 2)
        await first.close()
        await second.close()
        while (await good.next(m.Committed)).commit_id < 2:
            pass  # Each record is a part of the put, so each may be stored in its own turn.
        while here.daemon.frames.bytes:
            await asyncio.sleep(0)
        await good.close()


async def test_next_frame_of_a_connection_waits_after_those_of_others(tmp_path: Path) -> None:
    async with running(tmp_path, limits=LIMITS) as here:
        good = await Wire.connect(here.address, "good")
        await good.ask(m.QueueCreate, "Q")
        frames = here.daemon.frames
        wire = await half(here.address)
        while not frames._placed:
            await asyncio.sleep(0)
        other = await half(here.address)
        await settled(here, 1)
        (placed,) = frames._placed
        # The body is not an array, so the daemon closes the connection.
        wire.writer.write(bytes(MIB - MIB // 2))
        while placed in frames._placed:
            await asyncio.sleep(0)
        assert len(frames._placed) == 1  # This frame is from the other connection.
        for each in (wire, other, good):
            await each.close()


async def test_reads_are_short_while_little_room_is_left(tmp_path: Path) -> None:
    async with running(tmp_path, limits=LIMITS) as here:
        frames = here.daemon.frames
        assert len(frames.buffer()) == large_frames.READ_BYTES
        wires = [await half(here.address, 60_000) for _ in range(70)]
        while not frames.is_room_short:
            await asyncio.sleep(0)
        assert len(frames.buffer()) == large_frames.SHARE_BYTES
        for wire in wires:
            await wire.close()


class Sender:
    """A connection whose requests wait in an intake, and which waits for a place for a frame."""

    def __init__(self, number: int, intake: Intake) -> None:
        self.peer = SimpleNamespace(number=number)
        self.is_waiting = self.is_cut_off = False
        self._intake = intake

    def wait_for_place(self, *, is_waiting: bool) -> None:
        self.is_waiting = is_waiting

    def cut_off(self, goaway: m.Goaway) -> None:
        assert goaway.code == ErrorCode.LIVENESS_EXPIRED
        self.is_cut_off = True
        self._intake.close(self.peer.number)


class Crowd:
    """Senders that share a room of 16 MiB, of which frames can use 12 MiB."""

    def __init__(self) -> None:
        self.rates = PutRates()
        self.intake = Intake(put_rates=self.rates)
        self.senders: dict[int, Any] = {}
        self.frames = LargeFrames(16 * MIB, self.intake, self.senders)

    def sender(self, rate: PutRate | None = None) -> Any:
        """Adds a connection of a user with this rate."""
        number = len(self.senders) + 1
        self.senders[number] = sender = Sender(number, self.intake)
        if rate is not None:
            self.rates.watch(number, rate)
        return sender

    def user(self, *sizes: int) -> tuple[PutRate, list[Any]]:
        """Adds a user that has no tokens left, with delayed puts of these sizes."""
        rate = PutRate()
        rate.set(1, 0)
        rate.take(60, 0)
        senders = [self.sender(rate) for _ in sizes]
        for sender, size_bytes in zip(senders, sizes, strict=True):
            put = m.Put(1, 1, 0, "Q", [b"record"])
            self.intake.message(sender.peer.number, put, size_bytes)
        assert not list(self.intake.take(1_000, 1 << 30))
        return rate, senders

    def frame(self, sender: Any, frame_bytes: int) -> None:
        """Receives the first bytes of a frame, and ends a turn."""
        self.frames.holds(sender, 10, frame_bytes, is_new=True)
        self.frames.go_on()


def test_delayed_puts_give_way_to_the_frame_of_another_user() -> None:
    crowd = Crowd()
    _, few = crowd.user(MIB, MIB)
    _, many = crowd.user(MIB, 3 * MIB, 2 * MIB)
    first, second = crowd.sender(), crowd.sender()
    crowd.frame(first, 4 * MIB)
    assert not any(sender.is_cut_off for sender in few + many)
    crowd.frame(second, 4 * MIB)
    assert [sender.is_cut_off for sender in few + many] == [False, False, False, True, True]
    assert (first.is_waiting, second.is_waiting) == (False, False)
    assert crowd.intake.bytes == 3 * MIB


def test_delayed_puts_take_at_most_half_of_the_room() -> None:
    crowd = Crowd()
    _, few = crowd.user(MIB, 2 * MIB)
    _, many = crowd.user(*[MIB // 4] * 20)
    crowd.frames.go_on()
    assert not any(sender.is_cut_off for sender in few + many), "8 MiB are half of the room"
    _, more = crowd.user(MIB)
    other = crowd.sender()
    crowd.intake.message(other.peer.number, m.Put(1, 1, 0, "Q", [b"record"]), 4 * MIB)
    crowd.frames.go_on()
    assert sum(sender.is_cut_off for sender in many) == 4
    assert not any(sender.is_cut_off for sender in [*few, *more, other])
    assert crowd.intake.bytes == 12 * MIB


def test_incomplete_frame_of_a_delayed_connection_gives_way_too() -> None:
    crowd = Crowd()
    _, (delayed,) = crowd.user(10)
    crowd.frame(delayed, 8 * MIB)
    other = crowd.sender()
    crowd.frame(other, 8 * MIB)
    assert (delayed.is_cut_off, other.is_waiting) == (True, False)
    assert crowd.frames.bytes == 8 * MIB


def test_delayed_puts_stay_if_their_room_is_not_enough_or_only_their_user_needs_it() -> None:
    crowd = Crowd()
    rate, delayed = crowd.user(2 * MIB, 2 * MIB)
    first, own, other = crowd.sender(), crowd.sender(rate), crowd.sender()
    crowd.frame(first, 8 * MIB)
    crowd.frame(own, MIB)
    assert own.is_waiting
    crowd.frame(other, 8 * MIB)
    assert other.is_waiting
    assert not any(sender.is_cut_off for sender in delayed)
    crowd.frames.forget(first)
    assert (own.is_waiting, other.is_waiting) == (True, False), "the delayed user comes last"
    crowd.frames.forget(other)
    assert not own.is_waiting
