"""Tests of the handle that puts groups on the event loop, with a keeper on a real socket."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import Group, Outgoing, RequestError
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.aio.test_unit import working
from tests.qmgr_client.keeper import Keeper


def put(keeper: Keeper, queue: str = "OUT") -> list[Any]:
    """Returns the number and the last-message flag of each message on *queue*.

    A message without a group is shown as 0.
    """
    groups = [keeper.fields[body].group for body in keeper.ready.get(queue, [])]
    return [(group[1], group[2]) if group else 0 for group in groups]


def ids(keeper: Keeper, queue: str = "OUT") -> list[int]:
    groups = [keeper.fields[body].group for body in keeper.ready.get(queue, [])]
    return [int.from_bytes(group[0], "big") for group in groups if group]


async def test_group_is_numbered(tmp_path: Path) -> None:
    """E4: A group has one id, numbers from 1, and a flag on its last message."""
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.group("OUT") as group:
            await group.put(b"a", priority=9)
            assert group.current == Group((1).to_bytes(24, "big"), 1)
            await group.put(b"b")
            await group.put(b"c", last=True)
            assert group.current is None
            await group.put(b"d", in_group=False)
            await group.put(b"e", last=True)
        assert put(keeper) == [(1, False), (2, False), (3, True), 0, (1, True)]
        assert ids(keeper) == [1, 1, 1, 2]
        assert group.warning is None


async def test_group_of_ones_own_id(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.group("OUT", group_id=(77).to_bytes(24, "big")) as group:
            await group.put(b"a", last=True)
            await group.put(b"b", last=True)
        async with manager.group("OUT", group_id="ac" * 24) as group:
            await group.put(b"c", last=True)
        assert ids(keeper) == [77, 1, int("ac" * 24, 16)]
        with pytest.raises(RequestError, match="b'short' is 5 bytes, not 24: to use text"):
            manager.group("OUT", group_id=b"short")


async def test_put_in_physical_order_moves_the_handle(tmp_path: Path) -> None:
    """E5, E27: After a numbered put, the next put in logical order has the next number."""
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.group("OUT") as group:
            await group.put_physical(b"a", group=Group(b"g" * 24, 4))
            await group.put(b"b")
            await group.put_physical(b"c", group=(b"g" * 24, 3, True))
        assert put(keeper) == [(4, False), (5, False), (3, True)]
        assert group.current is None


async def test_put_that_is_refused_uses_up_no_number(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.refuse[b"no"] = ErrorCode.QUEUE_FULL
        async with manager.group("OUT") as group:
            await group.put(b"a")
            with pytest.raises(RequestError, match="QUEUE_FULL"):
                await group.put(b"no", last=True)
            await group.put(b"b")
            async with manager.unit_of_work() as unit:
                with pytest.raises(RequestError, match="QUEUE_FULL"):
                    await group.put_physical(b"no", unit, group=Group(b"h" * 24, 7))
            assert group.warning is None
            await group.put(b"c", last=True)
        assert put(keeper) == [(1, False), (2, False), (3, True)]


async def test_put_that_would_break_a_group_is_refused(tmp_path: Path) -> None:
    """E15, E16, E17: Puts in logical order raise the errors 2241, 2185 and 2245."""
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.group("OUT") as group:
            await group.put(b"a")
            with pytest.raises(RequestError, match="INCOMPLETE_GROUP"):
                await group.put(b"b", in_group=False)
            with pytest.raises(RequestError, match="INCONSISTENT_PERSISTENCE"):
                await group.put(b"c", persistent=False)
            async with manager.unit_of_work() as unit:
                with pytest.raises(RequestError, match="INCONSISTENT_UNIT"):
                    await group.put(b"d", unit=unit)
        assert put(keeper) == [(1, False)]
        assert group.warning == ErrorCode.INCOMPLETE_GROUP  # close() logs this warning.


async def test_unit_that_is_backed_out_leaves_the_handle_before_it(tmp_path: Path) -> None:
    """E24: After 1, 2 (committed) and 3, 4 (backed out), the next put is 3."""
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.group("OUT") as group:
            async with manager.unit_of_work() as unit:
                await group.put_many([b"1", b"2"], unit=unit)
            async with manager.unit_of_work() as unit:
                await group.put_many([b"3", Outgoing(b"4")], unit=unit)
                await unit.backout()
            async with manager.unit_of_work() as unit:
                await group.put(b"five", last=True, unit=unit)
        assert put(keeper) == [(1, False), (2, False), (3, True)]


async def test_unit_that_is_lost_leaves_the_handle_before_it(tmp_path: Path) -> None:
    """E24: When a unit is lost, the handle returns to its earlier position."""
    async with working(tmp_path) as (manager, keeper, listener):
        async with manager.group("OUT") as group:
            unit = await manager.unit_of_work().__aenter__()
            await group.put(b"1", unit=unit)
            listener.cut_at = m.Get, True
            with pytest.raises(RequestError, match="UNIT_BACKED_OUT"):
                await unit.get("IN")
            assert group.current is None
            await group.put(b"one", last=True)
        assert put(keeper) == [(1, True)]


async def test_refusal_of_one_of_many_in_a_unit_leaves_the_handle_before_all(
    tmp_path: Path,
) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.refuse[b"no"] = ErrorCode.QUEUE_FULL
        async with manager.group("OUT") as group:
            with pytest.raises(RequestError, match="QUEUE_FULL"):
                async with manager.unit_of_work() as unit:
                    await group.put_many([b"a", b"no", b"b"], True, unit)
            assert group.current is None
            assert len(await group.put_many([b"c", b"d"], True)) == 2
        assert put(keeper) == [(1, False), (2, True)]


async def test_puts_at_the_same_time_take_turns(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.group("OUT") as group:
            await asyncio.gather(*(group.put(b"%d" % n) for n in range(5)))
        assert put(keeper) == [(n, False) for n in range(1, 6)]
        assert set(ids(keeper)) == {1}


async def test_plain_put_does_not_touch_a_handle(tmp_path: Path) -> None:
    """E15: A put without the handle does not change the current group."""
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.group("OUT") as group:
            await group.put(b"a")
            await manager.put("OUT", b"x", group=Group(b"g" * 24, 9))
            await manager.put("OUT", b"y")
            await group.put(b"b", last=True)
        assert put(keeper) == [(1, False), (9, False), 0, (2, True)]


async def test_handle_sets_the_group_itself(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, _, _):
        group = manager.group("OUT")
        for in_group in (True, False):
            with pytest.raises(RequestError, match="use put_physical"):
                await group.put(b"x", in_group=in_group, group=Group(b"g" * 24, 1))
        with pytest.raises(RequestError, match=r"is not \(id, number, last\): a group id"):
            await group.put_physical(b"x", group=(1, 2, 3, 4))  # type: ignore[arg-type]


async def test_closed_handle_raises(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, _, _):
        group = manager.group("OUT")
        await group.close()
        await group.close()
        assert group.warning is None
        for putting in (group.put(b"x"), group.put_physical(b"x"), group.put(b"x", in_group=False)):
            with pytest.raises(RequestError, match="CANCELLED: this handle of OUT is closed"):
                await putting
