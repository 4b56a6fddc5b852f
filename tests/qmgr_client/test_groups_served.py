"""Tests of message groups in both clients, with a real daemon."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_client.aio import (
    Group,
    GroupGot,
    Message,
    QueueManager,
    RequestError,
    UnitOfWork,
    connect,
)
from qmgr_client.blocking import connect as connect_blocking
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.served import Server, serve

A, B = b"a" * 24, b"b" * 24


class Killed(Exception):
    """Raised to interrupt a run."""


async def put(manager: QueueManager, group_id: bytes, *numbers: int, last: int = 0) -> None:
    for number in numbers:
        body = group_id[:1] + b"%d" % number
        await manager.put("Q", body, group=Group(group_id, number, number == last))


async def read(manager: QueueManager) -> list[bytes]:
    """Reads all messages of Q in logical order."""
    found = []
    async with manager.reader("Q") as reader:
        while (message := await reader.get()) is not None:
            found.append(message.body)
            await manager.ack(message)
    return found


async def test_group_makes_a_round_trip(tmp_path: Path) -> None:
    """E3, E4: Groups are read in the order of puts. A message without a group is read alone."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        async with manager.group("Q") as group:
            await group.put(b"1", priority=0)
            await group.put(b"2", priority=9)
            await group.put(b"3", last=True)
            await group.put(b"alone", in_group=False)
        async with manager.reader("Q") as reader:
            found = [await reader.get() for _ in range(5)]
        messages = [message for message in found if message is not None]
        assert [message.body for message in messages] == [b"alone", b"1", b"2", b"3"]
        alone, first, *_ = messages
        assert (alone.group_id, alone.group_number, alone.group_last) == (bytes(24), 1, True)
        assert first.group_id == messages[3].group_id != bytes(24)
        assert first.taken_over
        assert not messages[2].taken_over


async def test_groups_that_came_in_any_order_are_read_one_by_one(tmp_path: Path) -> None:
    """E5, E8, E9: Groups that were put in physical order are read one after another."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        async with manager.group("Q") as group:
            for group_id, number in ((A, 3), (B, 2), (A, 1), (B, 1), (A, 2)):
                body = group_id[:1] + b"%d" % number
                await group.put_physical(body, group=Group(group_id, number, number == 3))
        await put(manager, B, 3, last=3)
        assert await read(manager) == [b"a1", b"a2", b"a3", b"b1", b"b2", b"b3"]


async def test_wrong_selection_inside_a_group_is_refused(tmp_path: Path) -> None:
    """E18: The error has the reason code 2247."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await put(manager, A, 1, 2, last=2)
        await put(manager, B, 1, 2, last=2)
        async with manager.reader("Q") as reader:
            assert await reader.get(group_id=A) is not None
            with pytest.raises(RequestError) as caught:
                await reader.get(group_id=B)
            assert caught.value.code == ErrorCode.MATCH_INCONSISTENT
            assert reader.current == Group(A, 1)
            found = await reader.get(group_id=A)
            assert found is not None
            assert found.body == b"a2"


async def test_number_is_put_once(tmp_path: Path) -> None:
    """E19, E36: A number is refused if it is in use, after the end of the group, or invalid."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await put(manager, A, 1, 2, last=2)
        for number, last, code in (
            (1, False, ErrorCode.GROUP_NUMBER_TAKEN),
            (3, False, ErrorCode.GROUP_ENDED),
            (0, False, ErrorCode.GROUP_NUMBER_INVALID),
            (10**9, False, ErrorCode.GROUP_NUMBER_INVALID),
        ):
            with pytest.raises(RequestError) as caught:
                await manager.put("Q", b"x", group=Group(A, number, last))
            assert caught.value.code == code


async def test_backout_restores_both_ends(tmp_path: Path) -> None:
    """E24: After 1, 2 (commit) and 3, 4 (backout), the next put is 3. Gets behave likewise."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        async with manager.group("Q") as group:
            for bodies, is_kept in (((b"1", b"2"), True), ((b"x", b"y"), False)):
                async with manager.unit_of_work() as unit:
                    await group.put_many(bodies, unit=unit)
                    if not is_kept:
                        await unit.backout()
            async with manager.unit_of_work() as unit:
                await group.put_many([b"3", b"4"], True, unit)
        async with manager.reader("Q") as reader:
            found = []
            for is_kept in (True, False, True):
                async with manager.unit_of_work() as unit:
                    for _ in range(2):
                        message = await reader.get(1_000, unit)
                        assert message is not None
                        found.append((message.group_number, message.body))
                    if not is_kept:
                        await unit.backout()
        numbers = [(n, b"%d" % n) for n in (1, 2, 3, 4)]
        assert found == [*numbers[:2], *numbers[2:], *numbers[2:]]
        assert (await manager.admin.queue_show("Q"))["depth"] == 0


async def test_inconsistencies_are_refused_or_cause_a_warning(tmp_path: Path) -> None:
    """E15, E16, E17: Such calls fail in logical order, and cause warnings in physical order."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        async with manager.group("Q") as group:
            await group.put(b"1")
            with pytest.raises(RequestError, match="INCONSISTENT_PERSISTENCE"):
                await group.put(b"2", persistent=False)
            with pytest.raises(RequestError, match="INCOMPLETE_GROUP"):
                await group.put(b"2", in_group=False)
            current = group.current
            assert current is not None
            await group.put_physical(b"2", persistent=False, group=current._replace(number=2))
            warnings = [group.warning]
        warnings.append(group.warning)
        assert warnings == [ErrorCode.INCONSISTENT_PERSISTENCE, ErrorCode.INCOMPLETE_GROUP]
        async with manager.reader("Q") as reader:
            await reader.get()
            async with manager.unit_of_work() as unit:
                with pytest.raises(RequestError, match="INCONSISTENT_UNIT"):
                    await reader.get(unit=unit)


@pytest.mark.parametrize("killed_at", [1, 4, 5, 9])
async def test_group_is_put_and_read_over_units_and_kills(tmp_path: Path, killed_at: int) -> None:
    """E25, E26, E27: Killed runs resume without duplicates, and STATUS is empty at the end."""

    def items(count: int) -> list[bytes]:
        return [b"%d" % number for number in range(1, count + 1)]

    async def handle(message: Message, unit: UnitOfWork) -> None:
        if message.body in failing:
            failing.clear()
            raise Killed
        await unit.put("DONE", message.body)

    def broken() -> Iterator[bytes]:
        for item in items(9):
            if item in failing:
                raise Killed
            yield item

    failing = {b"%d" % killed_at}
    async with serve(tmp_path) as address:
        async with connect(address) as manager:
            for queue in ("Q", "DONE", "STATUS"):
                await manager.admin.queue_create(queue)

            with pytest.raises(Killed):
                await manager.put_group("Q", broken(), status_queue="STATUS", name="put", batch=2)
        async with connect(address) as manager:
            done = await manager.put_group(
                "Q", items(9), status_queue="STATUS", name="put", batch=2
            )
            assert done.put + done.skipped == 9
            with pytest.raises(Killed):
                await manager.get_group("Q", handle, status_queue="STATUS", name="get", batch=2)
        async with connect(address) as manager:
            got = await manager.get_group(
                "Q", handle, status_queue="STATUS", name="get", batch=2, wait_ms=1_000
            )
            assert got is not None
            assert (got.group_id, got.got + got.skipped) == (done.group_id, 9)
            assert got.has_ended
            found = await manager.get_many("DONE", 20)
            assert [message.body for message in found] == items(9)
            assert (await manager.admin.queue_show("STATUS"))["depth"] == 0
            assert (await manager.admin.queue_show("Q"))["depth"] == 0


async def test_consumers_have_groups_pinned(tmp_path: Path) -> None:
    """Each group goes to one consumer in order. A failed message is repeated before later ones."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        groups = [bytes([65 + n]) * 24 for n in range(4)]
        for number in range(1, 6):
            for group_id in groups:
                await put(manager, group_id, number, last=5)
        done: dict[bytes, list[int]] = {group_id: [] for group_id in groups}
        failed: set[bytes] = set()

        async def work(other: QueueManager) -> None:
            async for message in other.consume("Q", prefetch=8, groups="pinned"):
                if message.group_number == 3 and message.group_id not in failed:
                    failed.add(message.group_id)
                    await other.release(message)
                    continue
                await other.ack(message)
                done[message.group_id].append(message.group_number)
                if all(len(numbers) == 5 for numbers in done.values()):
                    return

        async with connect(address) as one, connect(address) as two:
            tasks = [asyncio.create_task(work(other)) for other in (one, two)]
            await asyncio.wait(tasks, timeout=20, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        assert list(done.values()) == [[1, 2, 3, 4, 5]] * 4
        assert failed == set(groups)


async def test_browse_in_logical_order(tmp_path: Path) -> None:
    """E39: A browse can continue after any page, and after a message without a group."""
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await put(manager, A, *range(150, 0, -1), last=150)
        await put(manager, B, 2, last=2)
        await manager.put("Q", b"alone")
        found = [message async for message in manager.browse("Q", order="logical")]
        assert [x.group_number for x in found] == [*range(1, 151), 1]
        assert [x async for x in manager.browse("Q", order="logical", after=found[-1])] == []


async def test_operator_looks_after_groups(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await put(manager, A, 1, 2, last=2)
        await put(manager, B, 1, 3, last=3)
        assert [row["group"] async for row in manager.admin.groups("Q")] == [A.hex(), B.hex()]
        (row,) = [row async for row in manager.admin.groups("Q", incomplete=True)]
        assert (row["group"], row["state"], row["missing"]) == (B.hex(), "gap", 1)
        shown = await manager.admin.show_group("Q", B)
        assert [member["number"] for member in shown["members"]] == [1, 3]
        assert shown["gaps"] == [[2, 2]]
        assert (await manager.admin.pause_group("Q", A))["state"] == "paused"
        assert (await manager.admin.resume_group("Q", A))["state"] == "complete"
        assert (await manager.admin.skip_group("Q", A))["next"] == 2
        with pytest.raises(RequestError, match="GROUP_NO_READER: no other connection reads groups"):
            await manager.admin.reassign_group("Q", A)
        await put(manager, b"c" * 24, 1, 2)
        assert (await manager.admin.close_group("Q", b"c" * 24))["last"] == 2
        with pytest.raises(RequestError, match="GROUP_UNKNOWN"):
            await manager.admin.show_group("Q", b"n" * 24)


def test_groups_without_async(tmp_path: Path) -> None:
    """E4, E25, E26: The blocking client puts, reads and resumes groups."""
    with Server(tmp_path) as server, connect_blocking(server.address) as client:
        for queue in ("Q", "DONE", "STATUS"):
            client.admin.queue_create(queue)
        with client.group("Q") as group:
            group.put(b"1")
            group.put(b"2", last=True)
        with client.reader("Q") as reader:
            for body in (b"1", b"2"):
                message = reader.get()
                assert message is not None
                assert message.body == body
                client.ack(message)
        run = {"status_queue": "STATUS", "name": "run", "batch": 2}
        done = client.put_group("Q", (b"%d" % n for n in range(5)), **run)  # type: ignore[arg-type]
        got = client.get_group(
            "Q",
            lambda message, unit: unit.put("DONE", message.body),
            **run,  # type: ignore[arg-type]
        )
        assert got == GroupGot(done.group_id, 5, 0, True)
        assert [x.body for x in client.get_many("DONE", 9)] == [b"%d" % n for n in range(5)]
        assert client.admin.queue_show("STATUS")["depth"] == 0
        assert list(client.admin.groups("Q")) == []


async def test_verbs_take_what_is_listed_and_texts(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        for queue in ("Q", "STATUS"):
            await manager.admin.queue_create(queue)
        await manager.put_group("Q", [b"1", b"2"], status_queue="STATUS", name="n", group_id="N1")
        (listed,) = [row["group"] async for row in manager.admin.groups("Q")]
        for group_id in (listed, "N1"):
            assert len((await manager.admin.show_group("Q", group_id))["members"]) == 2
            assert (await manager.admin.pause_group("Q", group_id))["state"] == "paused"
            assert (await manager.admin.resume_group("Q", group_id))["state"] == "complete"
            with pytest.raises(RequestError, match="GROUP_NO_READER: no other connection"):
                await manager.admin.reassign_group("Q", group_id)
            assert [x.body async for x in manager.browse("Q", group_id=group_id)] == [b"1", b"2"]
        assert (await manager.admin.close_group("Q", listed))["last"] == 2
        assert (await manager.admin.skip_group("Q", listed))["next"] == 2
        async with manager.reader("Q") as reader:
            message = await reader.get(group_id="N1")
        assert message is not None
        assert message.group_id == Group("N1", 1).id
        with pytest.raises(RequestError, match="VALUE_INVALID: the group id b'N1' is 2 bytes"):
            await manager.admin.show_group("Q", b"N1")


def test_verbs_take_texts_without_async(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect_blocking(server.address) as client:
        client.admin.queue_create("Q")
        client.put("Q", b"1", group=("N1", 1, False))
        with client.group("Q", group_id="N2") as group:
            group.put(b"2", last=True)
        listed = [row["group"] for row in client.admin.groups("Q")]
        assert listed == [Group(text, 1).id.hex() for text in ("N1", "N2")]
        for group_id in (*listed, "N1", "N2"):
            assert client.admin.pause_group("Q", group_id)["state"] == "paused"
            client.admin.resume_group("Q", group_id)
        assert client.admin.close_group("Q", "N1")["last"] == 1
        assert [x.body for x in client.get_many("Q", 9, group_id="N2")] == [b"2"]
