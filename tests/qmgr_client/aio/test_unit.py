"""Tests of units of work on the event loop, with a keeper on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qmgr_client.aio import Outgoing, PutResult, QueueManager, RequestError, Uid, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.keeper import Keeper
from tests.qmgr_client.listener import Listener, kept, listening


@asynccontextmanager
async def working(directory: Path) -> AsyncIterator[tuple[QueueManager, Keeper, Listener]]:
    """Yields a client, a keeper with three messages on IN, and a listener."""
    keeper = Keeper()
    keeper.ready["IN"] = [b"1", b"2", b"3"]
    async with (
        listening(directory) as listener,
        kept(listener, keeper),
        connect(listener.address) as manager,
    ):
        yield manager, keeper, listener


async def test_leaving_the_block_commits(tmp_path: Path) -> None:
    """G20: When the put becomes visible, the message that the unit got is deleted."""
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.unit_of_work() as unit:
            message = await unit.get("IN", wait_ms=1_000)
            assert message is not None
            result = await unit.put("OUT", message.body, priority=9)
            assert result.uid is not None
            assert "OUT" not in keeper.ready
        assert keeper.ready == {"IN": [b"2", b"3"], "OUT": [b"1"]}
        assert unit.has_ended
        assert (keeper.commits[0].puts, keeper.commits[0].gets) == (1, 1)


async def test_exception_backs_out_and_goes_on(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        units = []

        async def work() -> None:
            async with manager.unit_of_work() as unit:
                units.append(unit)
                await unit.get("IN")
                await unit.put("OUT", b"x")
                raise ZeroDivisionError("by nothing")

        with pytest.raises(ZeroDivisionError):
            await work()
        assert keeper.ready == {"IN": [b"1", b"2", b"3"]}
        assert keeper.units == {}
        assert keeper.backed_out == [("ZeroDivisionError", "by nothing")]
        with pytest.raises(RequestError, match="UNIT_UNKNOWN"):
            await units[0].put("OUT", b"x")


async def test_caller_may_end_it(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.unit_of_work() as unit:
            await unit.put("OUT", b"x")
            await unit.commit()
            with pytest.raises(RequestError, match="UNIT_UNKNOWN"):
                await unit.commit()
        async with manager.unit_of_work() as unit:
            await unit.put("OUT", b"y")
            await unit.backout()
            with pytest.raises(RequestError, match="UNIT_UNKNOWN"):
                await unit.get("IN")
        assert keeper.ready["OUT"] == [b"x"]
        assert len(keeper.committed) == 1


async def test_unit_that_is_not_begun_raises(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, _, _):
        with pytest.raises(RequestError, match="use it in a with or async with block"):
            await manager.unit_of_work().put("OUT", b"x")


async def test_refused_put_raises_and_the_others_are_committed(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.refuse[b"bad"] = ErrorCode.QUEUE_FULL
        async with manager.unit_of_work() as unit:
            with pytest.raises(RequestError, match="QUEUE_FULL"):
                await unit.put("OUT", b"bad")
            with pytest.raises(RequestError, match="NAME_INVALID"):
                await unit.put("no name", b"x")
            own = Outgoing(b"c", uid=Uid("A", 1))
            results = await unit.put_many("OUT", [b"a", own])
            assert [isinstance(result, PutResult) for result in results] == [True, True]
        assert keeper.ready["OUT"] == [b"a", b"c"]


@pytest.mark.parametrize(
    ("item", "why"), [(b"bad", "QUEUE_FULL"), (bytes(5_000_000), "MESSAGE_TOO_LARGE")]
)
async def test_refusal_of_one_of_many_backs_the_block_out(
    tmp_path: Path, item: bytes, why: str
) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.refuse[b"bad"] = ErrorCode.QUEUE_FULL

        async def work() -> None:
            async with manager.unit_of_work() as unit:
                await unit.get("IN")
                await unit.put_many("OUT", [b"a", item, b"c"])

        with pytest.raises(RequestError, match=why):
            await work()
        assert keeper.ready == {"IN": [b"1", b"2", b"3"]}


async def test_caller_that_continues_after_a_refusal_commits_the_rest(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.refuse[b"bad"] = ErrorCode.QUEUE_FULL
        async with manager.unit_of_work() as unit:
            with pytest.raises(RequestError, match="QUEUE_FULL"):
                await unit.put_many("OUT", [b"a", b"bad", b"c"])
        assert keeper.ready["OUT"] == [b"a", b"c"]


async def test_many_puts_go_in_frames_that_fit(tmp_path: Path) -> None:
    bodies = [b"%d" % number + bytes(100_000) for number in range(9)]
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.unit_of_work() as unit:
            assert len(await unit.put_many("OUT", bodies)) == 9
            small = await unit.put_many("SMALL", [b"x"] * 2_500)
            assert all(isinstance(result, PutResult) for result in small)
        assert keeper.ready["OUT"] == bodies
        assert len(keeper.ready["SMALL"]) == 2_500


async def test_puts_may_be_under_way_together(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.unit_of_work() as unit:
            await asyncio.gather(*(unit.put("OUT", b"%d" % number) for number in range(300)))
        assert len(keeper.ready["OUT"]) == 300
        assert keeper.commits[0].puts == 300


async def test_messages_of_a_get_are_part_of_it(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.unit_of_work() as unit:
            found = await unit.get_many("IN", 2)
            assert [message.body for message in found] == [b"1", b"2"]
            assert await unit.get("NONE") is None
            keeper.lost_leases.add(b"3")
            with pytest.raises(RequestError, match="LEASE_LOST"):
                await unit.get("IN")
        assert keeper.commits[0].gets == 2


async def test_message_under_lease_is_acknowledged_in_it(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        first, second, third = await manager.get_many("IN", 3)
        keeper.lost_leases.add(second.body)
        async with manager.unit_of_work() as unit:
            await unit.ack(first)
            with pytest.raises(RequestError, match="LEASE_LOST"):
                await unit.ack(second)
            one, two = await unit.ack_many([second, third])
            assert (one is None, two) == (False, None)
        assert keeper.commits[0].gets == 2
        assert [body for _, body in keeper.leased.values()] == [b"2"]


async def test_lost_connection_backs_out(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, listener):
        unit = await manager.unit_of_work().__aenter__()
        await unit.put("OUT", b"x")
        waiting = asyncio.ensure_future(unit.get("NEVER", wait_ms=60_000))
        await listener.heard(m.Get)
        listener.close()
        left = unit.__aexit__(None, None, None)
        for step in (waiting, unit.put("OUT", b"y"), unit.commit(), left):
            with pytest.raises(RequestError, match="UNIT_BACKED_OUT"):
                await step
        await unit.backout()  # The unit is already backed out.
        async with manager.unit_of_work() as unit:
            await unit.put("OUT", b"z")
        assert keeper.ready["OUT"] == [b"z"]


@pytest.mark.parametrize("was_done", [True, False])
async def test_commit_under_way_is_resolved_on_the_next_connection(
    tmp_path: Path, was_done: bool
) -> None:
    async with working(tmp_path) as (manager, keeper, listener):
        listener.cut_at = (m.UnitCommit, was_done)
        unit = manager.unit_of_work()
        await unit.__aenter__()
        await unit.put("OUT", b"x")
        if was_done:
            await unit.commit()
        else:
            with pytest.raises(RequestError, match="UNIT_BACKED_OUT"):
                await unit.commit()
        assert keeper.ready.get("OUT", []) == ([b"x"] if was_done else [])
        assert len(keeper.committed) == was_done


async def test_commit_that_is_refused_for_now_may_be_tried_again(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.refuse_commits = [ErrorCode.STORE_FULL, ErrorCode.STORE_FULL]
        async with manager.unit_of_work() as unit:
            await unit.put("OUT", b"x")
            with pytest.raises(RequestError, match="STORE_FULL"):
                await unit.commit()
            keeper.refuse_commits = []
        assert keeper.ready["OUT"] == [b"x"]
        keeper.refuse_commits = [ErrorCode.STORE_FULL]
        with pytest.raises(RequestError, match="STORE_FULL"):
            async with manager.unit_of_work() as unit:
                await unit.put("OUT", b"y")
        assert keeper.units == {}, "a unit whose commit is refused is backed out"


async def test_cancelled_block_backs_out(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, listener):

        async def work() -> None:
            async with manager.unit_of_work() as unit:
                await unit.get("IN")
                await unit.get("NEVER", wait_ms=60_000)

        task = asyncio.create_task(work())
        await listener.heard(m.Settle)
        await listener.heard(m.Get)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert keeper.units == {}
        assert keeper.ready["IN"] == [b"1", b"2", b"3"]


async def test_unit_whose_beginning_is_cancelled_is_backed_out(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, listener):
        listener.gate.clear()
        beginning = asyncio.create_task(manager.unit_of_work().__aenter__())
        await listener.heard(m.UnitBegin)
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning
        listener.gate.set()
        await listener.heard(m.UnitBackout)
        await manager.put("OUT", b"behind it")
        assert keeper.units == {}


async def test_put_that_is_cancelled_may_be_part_of_it(tmp_path: Path) -> None:
    """The commit counts a cancelled put if the queue manager has accepted it."""
    async with working(tmp_path) as (manager, keeper, listener):
        async with manager.unit_of_work() as unit:
            listener.gate.clear()
            putting = asyncio.create_task(unit.put("OUT", b"x"))
            await listener.heard(m.UnitPut)
            putting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await putting
            listener.gate.set()
        assert keeper.ready["OUT"] == [b"x"]
