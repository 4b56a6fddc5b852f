"""Tests of the administration methods with a real daemon."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from qmgr_client import blocking
from qmgr_client.aio import connect
from qmgr_client.aio.admin import Admin
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.listener import listening
from tests.qmgr_client.served import serve


async def test_administration(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("A", lease_ms=5_000)
        await manager.admin.link_create("HUB", ["127.0.0.1:1"], stopped=True)
        await manager.admin.queue_create("B@HUB")
        names = {row["queue"] for row in await manager.admin.queue_list()}
        assert {"A", "B@HUB"} <= names
        assert len((await manager.admin.link_list())["links"]) == 1
        altered = await manager.admin.link_alter("HUB", ["127.0.0.1:2"])
        assert altered["changed"] == {"addresses": [["127.0.0.1:1"], ["127.0.0.1:2"]]}
        await manager.admin.link_start("HUB")
        await manager.admin.link_stop("HUB")
        await manager.admin.link_show("HUB")
        await manager.put("B@HUB", b"x")
        await manager.admin.queue_delete("B@HUB")
        with pytest.raises(RequestError) as caught:
            await manager.admin.link_delete("HUB")
        assert caught.value.code == ErrorCode.LINK_NOT_EMPTY
        assert await manager.admin.link_delete("HUB", purge=True) == {"messages": 1}
        await manager.put("A", b"x")
        assert await manager.admin.queue_purge("A") == {"messages": 1}
        assert await manager.admin.queue_delete("A") == {"messages": 0}


async def test_queue_is_browsed_in_the_order_of_arrival(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("A")
        for priority in (1, 9, 5):
            await manager.put("A", b"x", priority=priority)
        page = await manager.admin.browse_arrivals("A", messages_max=2)
        assert [item[0] for item in page["items"]] == [1, 9]
        page = await manager.admin.browse_arrivals("A", page["next"][1])
        assert ([item[0] for item in page["items"]], page["next"]) == ([5], None)
        assert (await manager.admin.queue_show("A"))["arrived"] == 3


async def test_alteration_reports_changes(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("A", lease_ms=5_000)
        row = await manager.admin.queue_alter("A", lease_ms=None, depth_max=7, put_inhibit=True)
        assert row["changed"] == {
            "depth_max": [100_000_000, 7],
            "lease_ms": [5_000, 30_000],
            "put_inhibit": [False, True],
        }
        assert (row["depth_max"], row["lease_ms"], row["given"]) == (7, 30_000, ["depth_max"])
        with pytest.raises(RequestError) as caught:
            await manager.put("A", b"x")
        assert caught.value.code == ErrorCode.PUT_INHIBITED
        assert (await manager.admin.queue_alter("A", put_inhibit=True))["changed"] == {}
        await manager.admin.queue_alter("A", put_inhibit=False)
        await manager.put("A", b"x")


async def test_queue_is_created_or_altered_to_what_is_asked(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        made = await admin.queue_ensure("A", lease_ms=timedelta(seconds=5), retry_max_ms=None)
        assert (made["created"], made["changed"], made["given"]) == (True, {}, ["lease_ms"])
        again = await admin.queue_ensure("A", lease_ms=5_000)
        assert (again["created"], again["changed"]) == (False, {})
        other = await admin.queue_ensure("A", depth_max=7)
        assert (other["created"], other["lease_ms"]) == (False, 5_000), (
            "other attributes are unchanged"
        )
        assert other["changed"] == {"depth_max": [100_000_000, 7]}
        back = await admin.queue_ensure("A", lease_ms=None)
        assert back["changed"] == {"lease_ms": [5_000, 30_000]}
        with pytest.raises(RequestError) as caught:
            await admin.queue_ensure("B", depth_max=-1)
        assert caught.value.code is ErrorCode.VALUE_INVALID


async def test_queue_that_another_client_creates_meanwhile_is_altered() -> None:
    asked: list[str] = []

    async def ask(kind: type[Any], *fields: Any) -> Any:
        asked.append(kind.__name__)
        if len(asked) == 1:
            raise RequestError(ErrorCode.QUEUE_UNKNOWN, "not yet")
        if len(asked) == 2:
            raise RequestError(ErrorCode.QUEUE_EXISTS, "by now")
        return {"queue": fields[0], "changed": {"depth_max": [5, 7]}}

    found = await Admin(ask).queue_ensure("A", depth_max=7)
    assert asked == ["QueueAlter", "QueueCreate", "QueueAlter"]
    assert (found["created"], found["changed"]) == (False, {"depth_max": [5, 7]})


async def test_other_refusals_of_a_queue_that_is_ensured_are_raised() -> None:
    async def ask(kind: type[Any], *fields: Any) -> Any:
        code = ErrorCode.QUEUE_UNKNOWN if kind is m.QueueAlter else ErrorCode.LINK_UNKNOWN
        raise RequestError(code, "why")

    with pytest.raises(RequestError) as caught:
        await Admin(ask).queue_ensure("A@HUB")
    assert caught.value.code is ErrorCode.LINK_UNKNOWN


async def test_consumer_of_an_inhibited_queue_waits_until_it_is_lifted(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("A", get_inhibit=True)
        await manager.put("A", b"x")
        with pytest.raises(RequestError) as caught:
            await manager.get("A")
        assert caught.value.code == ErrorCode.GET_INHIBITED
        async with connect(address) as other:
            first = asyncio.ensure_future(anext(aiter(other.consume("A"))))
            while not (await manager.admin.queue_show("A"))["consumers"]:
                assert not first.done()
            await manager.admin.queue_alter("A", get_inhibit=False)
            message = await first
            assert message.body == b"x"
            await other.ack(message)


async def test_templates_are_set_listed_and_deleted(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("APP.A")
        row = await manager.admin.template_set("APP.*", retry_factor=1.5, lease_ms=100)
        assert (row["created"], row["queues"]) == (True, 1)
        shown = await manager.admin.queue_show("APP.A")
        assert (shown["retry_factor"], shown["template"]) == (1.5, "APP.*")
        (listed,) = await manager.admin.template_list()
        assert listed["attributes"] == {"retry_factor": 1.5, "lease_ms": 100}
        assert (await manager.admin.template_delete("APP.*"))["queues"] == 1
        assert await manager.admin.template_list() == []
        with pytest.raises(RequestError) as caught:
            await manager.admin.template_delete("APP.*")
        assert caught.value.code == ErrorCode.TEMPLATE_UNKNOWN


async def test_connections_are_listed_and_closed(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address, name="boss") as manager:
        async with connect(address, name="worker") as worker:
            found = {
                row["name"]: row["connection"] for row in await manager.admin.connection_list()
            }
            assert set(found) == {"boss", "worker"}
            closed = await manager.admin.connection_close(found["worker"])
            assert closed["name"] == "worker"
            with pytest.raises(RequestError):  # The closed client does not reconnect.
                await worker.admin.status()
        assert [row["name"] for row in await manager.admin.connection_list()] == ["boss"]
        with pytest.raises(RequestError) as caught:
            await manager.admin.connection_close(found["worker"])
        assert caught.value.code == ErrorCode.CONNECTION_UNKNOWN


async def test_address_that_is_no_list_is_refused(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        for verb in (manager.admin.link_create, manager.admin.link_alter):
            with pytest.raises(RequestError) as caught:
                await verb("HUB", "127.0.0.1:1")  # type: ignore[arg-type]
            assert str(caught.value) == (
                "VALUE_INVALID: addresses must be a list: write ['127.0.0.1:1'], not '127.0.0.1:1'"
            )


async def test_accepting_is_refused_where_nothing_was(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.link_create("HUB", ["127.0.0.1:1"], stopped=True)
        with pytest.raises(RequestError, match="link HUB is stopped, not refused"):
            await manager.admin.link_start("HUB", accept=True)


MOVE = m.QueueMove(1, "DEAD", "Q", "a = 1", 5, 100, True, 2)
ROW = {"job": 7}


@pytest.mark.parametrize(
    ("verb", "asked", "answer", "value"),
    [
        (
            lambda x: x.admin.queue_move(
                "DEAD", "Q", where="a = 1", messages_max=5, rate=100, copy=True, retries_max=2
            ),
            MOVE,
            ROW,
            ROW,
        ),
        (lambda x: x.admin.queue_move("DEAD"), m.QueueMove(1, "DEAD", ""), ROW, ROW),
        (
            lambda x: x.admin.queue_purge("Q", "a = 1", 3),
            m.QueuePurge(1, "Q", "a = 1", 3),
            {"messages": 3},
            {"messages": 3},
        ),
        (lambda x: x.admin.job_list(), m.JobList(1), {"jobs": [ROW]}, [ROW]),
        (lambda x: x.admin.job_show(7), m.JobShow(1, 7), ROW, ROW),
        (lambda x: x.admin.job_cancel(7), m.JobCancel(1, 7), ROW, ROW),
        (lambda x: x.admin.switch_over("nyc2", 3), m.SwitchOver(1, "nyc2", 3), ROW, ROW),
    ],
)
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_requests_about_jobs(
    tmp_path: Path, verb: Any, asked: Any, answer: Any, value: Any, is_blocking: bool
) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        if is_blocking:
            task = asyncio.create_task(asyncio.to_thread(_asked, listener.address, verb))
        else:
            task = asyncio.create_task(_awaited(listener.address, verb))
        talk = await greeting
        request = await talk.hear(type(asked))
        assert request == asked._replace(request_id=request.request_id)
        talk.say(m.Ok(request.request_id, answer))
        assert await task == value


async def _awaited(address: str, verb: Any) -> Any:
    async with connect(address) as manager:
        return await verb(manager)


def _asked(address: str, verb: Any) -> Any:
    with blocking.connect(address) as client:
        return verb(client)
