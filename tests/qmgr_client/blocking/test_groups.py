"""Tests of groups without asyncio. Callbacks run on the caller's thread and may call the client."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, Group, GroupGot, Message, RequestError, UnitOfWork, connect
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.blocking.test_unit import Kept
from tests.qmgr_client.keeper import Keeper

A = b"a" * 24


@pytest.fixture
def working(tmp_path: Path) -> Iterator[tuple[Client, Keeper]]:
    with Kept(tmp_path) as far, connect(far.address) as client:
        yield client, far.keeper


def test_handles(working: tuple[Client, Keeper]) -> None:
    """E4, E15: Handles assign numbers to messages, and report warnings."""
    client, keeper = working
    with client.group("IN") as group:
        group.put(b"1")
        group.put_many([b"2", b"3"])
        assert group.current is not None
        group.put_physical(b"4", group=Group(A, 4))
        assert group.warning == ErrorCode.INCOMPLETE_GROUP
        with client.unit_of_work() as unit:
            group.put_physical(b"5", unit, group=Group(A, 5))
            group.put(b"6", last=True, unit=unit)
    with client.reader("IN") as reader:
        found = reader.get()
        assert found is not None
        assert (found.group_number, reader.current) == (1, found.group)
        with client.unit_of_work() as unit:
            assert reader.get_physical(unit=unit, group_id=A, number=6) is not None
        assert reader.warning == ErrorCode.INCOMPLETE_GROUP
        reader.close()
    assert keeper.closed_readers == [1]
    assert len(client.new_group_id()) == 24


def test_group_over_units(working: tuple[Client, Keeper]) -> None:
    """E25, E26: The items and the handler run on the caller's thread and may call the client."""
    client, keeper = working
    here = threading.current_thread()

    def items() -> Iterator[bytes]:
        for number in range(1, 6):
            assert threading.current_thread() is here
            client.put("LOG", b"putting %d" % number)
            yield b"%d" % number

    def handle(message: Message, unit: UnitOfWork) -> None:
        assert threading.current_thread() is here
        if message.body in failing:
            failing.clear()
            raise ZeroDivisionError
        unit.put("DONE", b"did " + message.body)

    failing = {b"4"}
    done = client.put_group("IN", items(), status_queue="S", name="put", batch=2)
    assert (done.put, done.skipped) == (5, 0)
    with pytest.raises(ZeroDivisionError):
        client.get_group("IN", handle, status_queue="S", name="get", batch=2)
    keeper.ready["IN"].sort()
    got = client.get_group("IN", handle, status_queue="S", name="get", batch=2)
    assert got == GroupGot(done.group_id, 3, 2, True)
    assert keeper.ready["DONE"] == [b"did %d" % n for n in range(1, 6)]
    assert keeper.ready["S"] == []


def test_items_that_fail_end_the_run(working: tuple[Client, Keeper]) -> None:
    client, _ = working
    with pytest.raises(ZeroDivisionError):
        client.put_group("IN", (b"%d" % (1 // n) for n in (1, 0)), status_queue="S", name="x")
    with pytest.raises(RequestError, match="batch is 0: the minimum is 1"):
        client.put_group("IN", [b"1"], status_queue="S", name="x", batch=0)
