"""Tests of the requests that the methods for groups send. The handles have separate tests."""

from pathlib import Path

import pytest

from qmgr_client.aio import RequestError
from qmgr_protocol import messages as m
from tests.qmgr_client.aio.test_unit import working


async def test_each_id_is_new(tmp_path: Path) -> None:
    """E1, E4: Each call returns a new id of 24 bytes."""
    async with working(tmp_path) as (manager, _, _):
        found = {await manager.new_group_id() for _ in range(3)}
        assert len(found) == 3
        assert all(len(group_id) == 24 for group_id in found)


async def test_readers_have_numbers_of_their_own(tmp_path: Path) -> None:
    """E10: Each reader sends its own number."""
    async with working(tmp_path) as (manager, keeper, _):
        async with manager.reader("IN") as one, manager.reader("IN") as other:
            await one.get()
            await other.get()
        assert {get.reader for get in keeper.gets} == {1, 2}


async def test_order_that_is_none_is_refused(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, _, _):
        with pytest.raises(RequestError, match="is not physical, logical or pinned"):
            manager.consume("IN", groups="random")  # type: ignore[arg-type]
        with pytest.raises(RequestError, match="'pinned' is not physical or logical"):
            _ = [x async for x in manager.browse("IN", order="pinned")]  # type: ignore[arg-type]


async def test_consumer_sends_its_order(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        manager.consume("IN", groups="pinned", all_available=True)
        await manager.get("IN")  # This get follows the other requests on the same connection.
        (opening,) = keeper.consumers
        assert (opening.order, opening.all_available) == (m.PINNED, True)
