"""Tests that incomplete frames use limited memory, and that every good sender gets a turn."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from qmgr_protocol import messages as m
from qmgr_protocol.frame import LENGTH
from qmgrd import daemon as daemons
from qmgrd.net import large_frames
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
        assert (await good.next(m.Committed)).commit_id == 2
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
