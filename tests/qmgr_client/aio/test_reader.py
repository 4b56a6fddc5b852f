"""Tests of the reader of groups on the event loop, with a keeper on a real socket."""

import asyncio
from pathlib import Path

import pytest

from qmgr_client.aio import Group, QueueManager, RequestError
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.aio.test_unit import working
from tests.qmgr_client.keeper import Keeper

A, B = b"a" * 24, b"b" * 24


async def fill(manager: QueueManager, keeper: Keeper) -> None:
    """Fills IN with two groups of three messages."""
    keeper.ready["IN"].clear()
    for group_id in (A, B):
        for number in (1, 2, 3):
            body = group_id[:1] + b"%d" % number
            await manager.put("IN", body, group=Group(group_id, number, number == 3))


def asked(keeper: Keeper) -> list[tuple[int, bool, int, int]]:
    """Returns the order, all_available flag, number and reader of each get."""
    return [(x.order, x.all_available, x.number, x.reader) for x in keeper.gets]


async def test_reader_sends_its_number_and_closes(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper)
        async with manager.reader("IN", lease_ms=5_000) as reader:
            first = await reader.get(wait_ms=1)
            assert first is not None
            assert (first.group, reader.current) == (Group(A, 1), Group(A, 1))
            await reader.get(all_available=True)
        async with manager.reader("IN", all_available=True) as reader:
            await reader.get()
        async with manager.reader("IN"):
            pass  # The queue manager does not know this reader.
        assert asked(keeper) == [
            (m.LOGICAL, False, 0, 1),
            (m.LOGICAL, True, 0, 1),
            (m.LOGICAL, True, 0, 2),
        ]
        assert [get.lease_ms for get in keeper.gets] == [5_000, 5_000, 0]
        assert keeper.closed_readers == [1, 2]


async def test_last_message_ends_the_group(tmp_path: Path) -> None:
    """E3: After a message without a group, no group is current."""
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper)
        async with manager.reader("IN") as reader:
            places = []
            for _ in range(3):
                await reader.get()
                places.append(reader.current)
            assert places == [Group(A, 1), Group(A, 2), None]
            keeper.ready["IN"].insert(0, b"alone")
            assert await reader.get() is not None
            assert reader.current is None


async def test_get_in_physical_order_names_the_member(tmp_path: Path) -> None:
    """E26: The reader continues at (id, number). E15: Leaving a group causes a warning."""
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper)
        async with manager.reader("IN") as reader:
            await reader.get()
            found = await reader.get_physical(group_id=B, number=2)
            assert found is not None
            assert found.body == b"b2"
            assert reader.warning == ErrorCode.INCOMPLETE_GROUP
            assert reader.current == Group(B, 2)
            assert await reader.get_physical(group_id=B, number=9) is None
            assert reader.warning is None
        assert asked(keeper)[1] == (m.PHYSICAL, False, 2, 1)


async def test_reader_keeps_to_its_choice_of_units(tmp_path: Path) -> None:
    """E17: A change raises 2245 in logical order, but only causes a warning in physical order."""
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper)
        async with manager.reader("IN") as reader:
            await reader.get()
            async with manager.unit_of_work() as unit:
                with pytest.raises(RequestError, match="INCONSISTENT_UNIT"):
                    await reader.get(unit=unit)
                await reader.get_physical(unit=unit, group_id=A, number=2)
                assert reader.warning == ErrorCode.INCONSISTENT_UNIT
            with pytest.raises(RequestError, match="INCONSISTENT_UNIT"):
                await reader.get()
        assert len(keeper.gets) == 2


async def test_backout_brings_the_reader_back(tmp_path: Path) -> None:
    """E24: The reader repeats the gets of a unit that was backed out."""
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper)
        async with manager.reader("IN") as reader:
            async with manager.unit_of_work() as unit:
                await reader.get(unit=unit)
            async with manager.unit_of_work() as unit:
                await reader.get(unit=unit)
                await reader.get(unit=unit)
                assert reader.current is None
                await unit.backout()
            assert reader.current == Group(A, 1)
        assert keeper.commits[0].gets == 1


async def test_message_that_cannot_join_the_unit_is_given_back(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper)
        keeper.lost_leases = {b"a1"}
        async with manager.reader("IN") as reader:
            with pytest.raises(RequestError, match="LEASE_LOST"):
                async with manager.unit_of_work() as unit:
                    await reader.get(unit=unit)
            assert reader.current is None


async def test_connection_that_is_lost_ends_the_current_group(tmp_path: Path) -> None:
    """The rest of the group is available to any reader, even if a unit of work read its start."""
    async with working(tmp_path) as (manager, keeper, listener):
        await fill(manager, keeper)
        async with manager.reader("IN") as reader:
            await reader.get()
            listener.cut_at = m.Browse, False
            async for _ in manager.browse("IN"):
                pass
            assert reader.current is None
            async with manager.unit_of_work() as unit:
                found = await reader.get(unit=unit)
                assert found is not None
                assert found.body == b"a1"


async def test_get_that_is_given_up_leaves_the_reader_free(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.ready["IN"].clear()
        async with manager.reader("IN") as reader:
            waiting = asyncio.create_task(reader.get(wait_ms=60_000))
            await asyncio.wait([waiting], timeout=0.01)
            waiting.cancel()
            await asyncio.wait([waiting])
            await manager.put("IN", b"x")
            assert await reader.get() is not None


async def test_closed_reader_raises(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, _, _):
        reader = manager.reader("IN")
        await reader.close()
        await reader.close()
        for getting in (reader.get(), reader.get_physical()):
            with pytest.raises(RequestError, match="CANCELLED: this reader of IN is closed"):
                await getting


async def test_reader_ends_with_its_client(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, _, _), manager.reader("IN") as reader:
        await reader.get()
        await manager.close()
