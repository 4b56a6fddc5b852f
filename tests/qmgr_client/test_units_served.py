"""Tests of units of work, ends of leases and fields of messages, with a real daemon."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from qmgr_client.aio import Group, Outgoing, QueueManager, RequestError, connect
from tests.qmgr_client.served import serve


async def depth(manager: QueueManager, queue: str) -> int:
    found: int = (await manager.admin.queue_show(queue))["depth"]
    return found


async def test_unit_is_seen_when_it_is_committed(tmp_path: Path) -> None:
    """G20: An uncommitted put is invisible. A commit applies the puts and gets together."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("IN")
        await manager.admin.queue_create("OUT")
        await manager.put("IN", b"x")
        async with manager.unit_of_work() as unit:
            message = await unit.get("IN")
            assert message is not None
            result = await unit.put("OUT", message.body)
            assert await manager.get("OUT") is None
        assert await depth(manager, "IN") == 0
        found = await manager.get("OUT")
        assert found is not None
        assert found.uid == result.uid


async def test_backout_reinstates_gets_in_their_place(tmp_path: Path) -> None:
    """G20: A backout removes the puts, and returns the messages to their original positions."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("IN")
        await manager.admin.queue_create("OUT")
        await manager.put_many("IN", [b"1", b"2"])
        async with manager.unit_of_work() as unit:
            await unit.get("IN")
            await unit.put("OUT", b"x")
            await unit.backout()
        found = await manager.get_many("IN", 2)
        assert [message.body for message in found] == [b"1", b"2"]
        assert await depth(manager, "OUT") == 0


async def test_settle_outside_of_the_unit_that_got_the_message_names_the_unit(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("IN")
        await manager.put("IN", b"x")
        async with manager.unit_of_work() as unit:
            message = await unit.get("IN")
            assert message is not None
            for settled in (manager.ack, manager.release, manager.reject, manager.renew, unit.ack):
                with pytest.raises(RequestError, match="LEASE_LOST: an open unit of work"):
                    await settled(message)
        assert await depth(manager, "IN") == 0


async def test_unit_ends_with_its_connection(tmp_path: Path) -> None:
    """G20: When the connection is lost, the uncommitted unit is backed out."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("IN")
        await manager.put("IN", b"x")
        async with connect(address) as other:
            unit = await other.unit_of_work().__aenter__()
            assert await unit.get("IN") is not None
        found = await manager.get("IN", wait_ms=5_000)
        assert found is not None


async def test_large_unit_is_committed(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("OUT")
        async with manager.unit_of_work() as unit:
            assert len(await unit.put_many("OUT", [b"x"] * 1_500)) == 1_500
        assert await depth(manager, "OUT") == 1_500


async def test_order_stays_where_not_all_that_it_makes_has_room(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("IN")
        await manager.admin.queue_create("OUT", depth_max=3)
        await manager.put("IN", b"order")

        async def work() -> None:
            async with manager.unit_of_work() as unit:
                assert await unit.get("IN") is not None
                await unit.put_many("OUT", [b"x"] * 5)

        with pytest.raises(RequestError, match="QUEUE_FULL"):
            await work()
        assert (await depth(manager, "IN"), await depth(manager, "OUT")) == (1, 0)


async def test_message_has_all_that_was_put(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x", expiry_ms=60_000, persistent=False, group=(b"g" * 24, 1, True))
        message = await manager.get("Q")
        assert message is not None
        assert message.expiry_left_ms is not None
        assert 0 < message.expiry_left_ms <= 60_000
        assert message.group == Group(b"g" * 24, 1, True)
        assert not message.persistent


async def test_delayed_message_is_browsed_apart(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"late", deliver_at=datetime.now(UTC) + timedelta(hours=1))
        assert await manager.get("Q") is None
        assert [message.body async for message in manager.browse("Q")] == []
        assert [message.body async for message in manager.browse("Q", delayed=True)] == [b"late"]


async def test_selection(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put_many(
            "Q", [Outgoing(b"blue", headers={"color": "blue"}), Outgoing(b"c", correlation_id=b"c")]
        )
        found = await manager.get("Q", correlation_id=b"c")
        assert found is not None
        assert found.body == b"c"
        browsed = [message.body async for message in manager.browse("Q", where="color = 'blue'")]
        assert browsed == [b"blue"]
        with pytest.raises(RequestError, match="SELECTOR_INVALID"):
            await manager.get("Q", where="((")


async def test_renewed_lease_lasts(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x")
        message = await manager.get("Q", lease_ms=60_000)
        assert message is not None
        await manager.renew(message, 120_000)
        await manager.release(message, 0, failed=False, reason="BUSY")
        again = await manager.get("Q", wait_ms=5_000)
        assert again is not None
        assert (again.delivered, again.failed) == (1, 0)
        with pytest.raises(RequestError, match="LEASE_LOST"):
            await manager.renew(message)


async def test_rejected_message_is_a_dead_letter(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("DEAD")
        await manager.admin.queue_create("Q", backout_queue="DEAD")
        await manager.put("Q", b"x")
        message = await manager.get("Q")
        assert message is not None
        await manager.reject(message, "BAD_CARRIER", "carrier XX is not known")
        dead = await manager.get("DEAD", wait_ms=5_000)
        assert dead is not None
        assert dead.dead is not None
        assert (dead.dead.code_name, dead.dead.reason) == ("MESSAGE_REJECTED", "BAD_CARRIER")
        assert dead.dead.queue == "Q"
