"""Tests of one group in several units of work, with a keeper on a real socket."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import (
    Group,
    GroupGot,
    Message,
    Outgoing,
    QueueManager,
    RequestError,
    Uid,
    UnitOfWork,
)
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.aio.test_unit import working
from tests.qmgr_client.keeper import Keeper
from tests.qmgr_client.listener import Listener

A = b"a" * 24
RUN: Any = {"status_queue": "STATUS", "name": "load"}


class Killed(Exception):
    """Raised to interrupt a run."""


def items(count: int, killed_at: int = 0) -> Iterator[bytes]:
    for number in range(1, count + 1):
        if number == killed_at:
            raise Killed
        yield b"item %d" % number


def put(keeper: Keeper) -> list[tuple[bytes, int, bool]]:
    groups = [(body, keeper.fields[body].group) for body in keeper.ready.get("OUT", [])]
    return [(body, group[1], group[2]) for body, group in groups if group]


def whole(count: int) -> list[tuple[bytes, int, bool]]:
    return [(b"item %d" % n, n, n == count) for n in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
async def test_group_is_put_in_units(tmp_path: Path, count: int) -> None:
    """E25: A complete group leaves no status message behind."""
    async with working(tmp_path) as (manager, keeper, _):
        done = await manager.put_group("OUT", items(count), batch=3, **RUN)
        assert (done.group_id, done.put, done.skipped) == ((1).to_bytes(24, "big"), count, 0)
        assert put(keeper) == whole(count)
        assert not keeper.ready.get("STATUS")
        assert len(keeper.commits) == -(-count // 3)


@pytest.mark.parametrize("killed_at", range(2, 9))
async def test_run_that_is_killed_is_resumed(tmp_path: Path, killed_at: int) -> None:
    """E25, E27: A resumed run puts only the missing messages. STATUS is empty at the end."""
    async with working(tmp_path) as (manager, keeper, _):
        with pytest.raises(Killed):
            await manager.put_group("OUT", items(8, killed_at), batch=2, **RUN)
        before = len(put(keeper))
        done = await manager.put_group("OUT", items(8), batch=2, **RUN)
        assert (done.put, done.skipped) == (8 - before, before)
        assert put(keeper) == whole(8)
        assert len({keeper.fields[body].group[0] for body, _, _ in put(keeper)}) == 1  # type: ignore[index]
        assert keeper.ready["STATUS"] == []


async def test_run_is_resumed_with_the_items_that_are_left(tmp_path: Path) -> None:
    """E25: With ``resume_from``, the caller passes only the remaining items."""
    async with working(tmp_path) as (manager, keeper, _):
        with pytest.raises(Killed):
            await manager.put_group("OUT", items(8, 6), batch=2, **RUN)
        left = list(items(8))[2:]
        done = await manager.put_group("OUT", left, batch=2, resume_from=3, **RUN)
        assert (done.put, done.skipped) == (4, 4)
        assert put(keeper) == whole(8)


async def test_unit_that_is_lost_is_put_again(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, listener):
        for when in (1, 3):

            async def cutting(at: int = when) -> AsyncIterator[bytes]:
                for index, item in enumerate(items(4)):
                    if index == at:
                        listener.cut_at = m.UnitPut, True
                    yield item

            await manager.put_group("OUT", cutting(), batch=1, **RUN)
            assert listener.cut_at is None
            assert put(keeper) == whole(4)
            keeper.ready["OUT"].clear()


async def test_unit_that_is_always_backed_out_ends_the_run(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.refuse_commits = [ErrorCode.UNIT_BACKED_OUT] * 5
        with pytest.raises(RequestError, match="UNIT_BACKED_OUT"):
            await manager.put_group("OUT", items(1), **RUN)
        assert keeper.refuse_commits == []


async def test_whole_messages_keep_what_they_say(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        whole_items = [Outgoing(b"x", correlation_id=b"c"), Outgoing(b"y", priority=9)]
        await manager.put_group("OUT", whole_items, group_id=A, **RUN)
        assert keeper.fields[b"x"].correlation_id == b"c"
        assert keeper.fields[b"y"].group == (A, 2, True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 0}, "batch is 0: the minimum is 1"),
        ({"resume_from": 2}, "GROUP_UNKNOWN: put_group 'load' on OUT: there is no group to resume"),
        ({"resume_from": 0}, "resume_from is 0"),
        ({"items": []}, "there are no messages to put"),
        ({"name": ""}, "must have 1 to 64 bytes"),
    ],
)
async def test_run_that_cannot_be_is_refused(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    async with working(tmp_path) as (manager, _, _):
        options = {"items": [b"x"]} | RUN | options
        with pytest.raises(RequestError, match=why):
            await manager.put_group("OUT", options.pop("items"), **options)


async def test_items_that_do_not_fit_what_is_put_are_refused(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        with pytest.raises(Killed):
            await manager.put_group("OUT", items(8, 6), batch=2, **RUN)
        with pytest.raises(RequestError, match="number 5 is missing, but the items start at"):
            await manager.put_group("OUT", items(8), resume_from=6, **RUN)
        with pytest.raises(
            RequestError, match="'load' on OUT: 4 messages were put earlier: pass the rest"
        ):
            await manager.put_group("OUT", items(4), **RUN)
        assert len(put(keeper)) == 4


async def test_status_of_another_run_ends_this_one(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):

        async def raced() -> AsyncIterator[bytes]:
            for index, item in enumerate(items(6)):
                if index == 4:
                    assert await manager.put_group("OUT", items(6), batch=2, **RUN)
                yield item

        why = "LEASE_LOST: put_group 'load' on OUT: another call has taken the status from STATUS"
        with pytest.raises(RequestError, match=why):
            await manager.put_group("OUT", raced(), batch=2, **RUN)
        assert put(keeper) == whole(6)


# Getting


async def fill(manager: QueueManager, keeper: Keeper, count: int) -> None:
    keeper.ready["IN"].clear()
    for number in range(1, count + 1):
        await manager.put("IN", b"%d" % number, group=Group(A, number, number == count))


class Work:
    """A handler that records its work in the unit, and that fails at one number."""

    def __init__(self, killed_at: int = 0) -> None:
        self.killed_at = killed_at

    async def __call__(self, message: Message, unit: UnitOfWork) -> None:
        if message.group_number == self.killed_at:
            raise Killed
        await unit.put("DONE", b"did " + message.body)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
async def test_group_is_read_in_units(tmp_path: Path, count: int) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper, count)
        got = await manager.get_group("IN", Work(), batch=3, **RUN)
        assert got == GroupGot(A, count, 0, True)
        assert keeper.ready["DONE"] == [b"did %d" % n for n in range(1, count + 1)]
        assert keeper.ready["IN"] == []
        assert not keeper.ready.get("STATUS")


@pytest.mark.parametrize("killed_at", range(1, 7))
async def test_reader_that_is_killed_is_resumed(tmp_path: Path, killed_at: int) -> None:
    """E26: The first get is in physical order, by id and number. Later gets are logical."""
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper, 6)
        with pytest.raises(Killed):
            await manager.get_group("IN", Work(killed_at), batch=2, **RUN)
        done = len(keeper.ready.get("DONE", []))
        assert done == (killed_at - 1) // 2 * 2
        keeper.ready["IN"].sort()
        keeper.gets.clear()
        got = await manager.get_group("IN", Work(), batch=2, **RUN)
        assert got == GroupGot(A, 6 - done, done, True)
        assert keeper.ready["DONE"] == [b"did %d" % n for n in range(1, 7)]
        assert keeper.ready.get("STATUS", []) == []
        first, *others = [get for get in keeper.gets if get.queue == "IN"]
        if done:
            wanted = m.PHYSICAL, A, done + 1
            assert (first.order, first.group_id, first.number) == wanted
        assert {get.order for get in others} == {m.LOGICAL}


class Cutting(Work):
    """A handler that cuts the connection once after each of the given numbers."""

    def __init__(self, listener: Listener, cut_at: tuple[type, bool], *numbers: int) -> None:
        super().__init__()
        self.numbers = list(numbers)
        self._listener, self._cut_at = listener, cut_at

    async def __call__(self, message: Message, unit: UnitOfWork) -> None:
        if message.group_number in self.numbers:
            self.numbers.remove(message.group_number)
            self._listener.cut_at = self._cut_at
        await super().__call__(message, unit)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("kind", [m.UnitPut, m.UnitCommit, m.UnitBegin, m.Get, m.Settle, m.Browse])
async def test_reader_goes_on_over_lost_connections(
    tmp_path: Path, kind: type, is_done: bool
) -> None:
    """E26: The messages of a lost unit are processed again, and no work is committed twice."""
    async with working(tmp_path) as (manager, keeper, listener):
        await fill(manager, keeper, 6)
        work = Cutting(listener, (kind, is_done), 1, 4)
        got = await manager.get_group("IN", work, batch=2, **RUN)
        assert got == GroupGot(A, 6, 0, True)
        assert work.numbers == []
        assert keeper.ready["DONE"] == [b"did %d" % n for n in range(1, 7)]
        assert keeper.ready["IN"] == keeper.ready["STATUS"] == []


async def test_unit_of_a_reader_that_is_always_lost_ends_the_run(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, listener):
        await fill(manager, keeper, 6)
        work = Cutting(listener, (m.UnitPut, False), *[3] * 6)
        with pytest.raises(RequestError, match="UNIT_BACKED_OUT"):
            await manager.get_group("IN", work, batch=2, **RUN)
        assert work.numbers == [3]
        got = await manager.get_group("IN", Work(), batch=2, **RUN)
        assert got == GroupGot(A, 4, 2, True)


async def test_unit_that_took_too_long_is_not_read_again(tmp_path: Path) -> None:
    """Repeating the handler would take as long again, so the caller receives the error."""
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper, 6)
        keeper.refuse_commits = [ErrorCode.UNIT_BACKED_OUT, ErrorCode.STORE_FULL]
        with pytest.raises(RequestError, match="UNIT_BACKED_OUT"):
            await manager.get_group("IN", Work(), **RUN)
        assert keeper.refuse_commits == [ErrorCode.STORE_FULL]


async def test_group_of_which_the_next_is_late_is_left_half_read(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper, 5)
        late = keeper.ready["IN"].pop()
        got = await manager.get_group("IN", Work(), batch=2, all_available=False, **RUN)
        assert got == GroupGot(A, 4, 0, False)
        got = await manager.get_group("IN", Work(), batch=2, **RUN)
        assert got == GroupGot(A, 0, 4, False)
        keeper.ready["IN"].append(late)
        got = await manager.get_group("IN", Work(), batch=2, **RUN)
        assert got == GroupGot(A, 1, 4, True)


@pytest.mark.parametrize("due", [0, 6])
async def test_group_that_another_consumer_read_on_is_reported(tmp_path: Path, due: int) -> None:
    """Otherwise, the status message would block this reader from all other groups."""
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper, 5)
        keeper.ready["IN"].pop()
        await manager.get_group("IN", Work(), batch=2, all_available=False, **RUN)
        keeper.next_due = due
        with pytest.raises(
            RequestError, match=r"another consumer has received number 5,.*: qmctl get STATUS --uid"
        ):
            await manager.get_group("IN", Work(), batch=2, **RUN)


async def test_two_statuses_of_one_name_are_refused(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        await fill(manager, keeper, 5)
        keeper.ready["IN"].pop()
        await manager.get_group("IN", Work(), batch=2, all_available=False, **RUN)
        (status,) = keeper.ready[RUN["status_queue"]]
        other = status.replace(b"4", b"3")
        keeper.fields[other] = keeper.fields[status]
        keeper.uids[other] = Uid("QM9", 17)
        keeper.ready[RUN["status_queue"]].append(other)
        with pytest.raises(RequestError, match="2 statuses of get_group 'load' on IN") as caught:
            await manager.get_group("IN", Work(), batch=2, **RUN)
        for uid in (keeper.uids[status], "QM9.17"):
            assert f"(qmctl get STATUS --uid {uid})" in caught.value.text


async def test_no_group_is_none(tmp_path: Path) -> None:
    async with working(tmp_path) as (manager, keeper, _):
        keeper.ready["IN"].clear()
        assert await manager.get_group("IN", Work(), **RUN) is None
        assert keeper.gets[-1].all_available


async def test_message_of_no_group_is_read_as_one(tmp_path: Path) -> None:
    """E3: A message without a group is read as a group of one."""
    async with working(tmp_path) as (manager, _, _):
        got = await manager.get_group("IN", Work(), **RUN)
        assert got == GroupGot(bytes(24), 1, 0, True)
