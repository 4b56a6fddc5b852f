"""Tests that the daemon's rows about a whole queue manager match the classes."""

from pathlib import Path

from qmgr_client.aio import connect
from qmgr_client.aio.admin import Admin
from qmgr_client.manager_rows import InboundRow, RefusedRow
from qmgr_protocol import messages as m
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.memory_store import MemoryStore
from tests.qmgr_client.rows_check import check, row_fault
from tests.qmgr_client.served import serve
from tests.qmgrd.core.far import STREAM, Far
from tests.qmgrd.core.harness import Manager


async def test_rows_of_links_connections_status_and_history(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        check(await admin.link_create("HUB", ["127.0.0.1:1"], stopped=True), admin.link_create)
        check(await admin.link_alter("HUB", transit=True), admin.link_alter)
        check(await admin.link_show("HUB"), admin.link_show)
        check(await admin.link_start("HUB"), admin.link_start)
        check(await admin.link_stop("HUB"), admin.link_stop)
        check(await admin.link_allow("JFK"), admin.link_allow)
        check(await admin.link_list(), admin.link_list)
        check(await admin.link_disallow("JFK"), admin.link_disallow)
        check(await admin.link_delete("HUB"), admin.link_delete)
        check(await admin.status(), admin.status)
        check(await admin.connection_list(), admin.connection_list)
        await admin.queue_create("Q", accounting="on")
        await manager.put("Q", b"x")
        check(await admin.cursor_commit("LAKE", 0), admin.cursor_commit)
        assert check(await admin.history_show(), admin.history_show)["cursors"]
        assert check(await admin.history_read(), admin.history_read)["rows"]
        async with connect(address, name="other") as other:
            (row,) = (r for r in await admin.connection_list() if r["name"] == "other")
            check(await admin.connection_close(row["connection"]), admin.connection_close)
            assert other.name


def test_rows_of_links_that_lead_here_and_of_who_is_refused() -> None:
    manager = Manager(MemoryStore())
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    Far(manager).open()
    (row,) = app.ask(m.LinkList)["inbound"]
    assert row_fault(row, InboundRow) == ""
    strict = Manager(MemoryStore(), link={"inbound": "defined"})
    Far(strict).client.say(m.LinkOpen(10, STREAM, 1, 100))
    (row,) = strict.connect().ask(m.LinkList)["refused"]
    assert row_fault(row, RefusedRow) == ""


def test_items_that_are_set_aside() -> None:
    store = MemoryStore()
    Manager(store)  # The manager creates the store.
    tx = store.begin()
    for topic in (b"a", b"b"):
        rows.put(tx, keys.SPACE_TOPIC + topic, b"rot")
    store.commit()
    app = Manager(store).connect()
    items = app.ask(m.AsideList)["items"]
    assert len(items) == 2
    for item in items:
        check([item], Admin.aside_list)
    check(app.ask(m.AsideRetry, 1), Admin.aside_retry)
    check(app.ask(m.AsideDrop, 2), Admin.aside_drop)
