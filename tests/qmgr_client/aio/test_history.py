"""Tests of the methods for history, with a real daemon."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qmgr_client.aio import QueueManager, RequestError, connect
from qmgr_protocol import history
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.served import serve


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[QueueManager]:
    async with serve(tmp_path) as address, connect(address, name="ops") as manager:
        await manager.admin.queue_create("Q", accounting="on")
        yield manager


async def test_history_is_read_row_by_row(manager: QueueManager) -> None:
    for number in range(5):
        await manager.put("Q", b"%d" % number)
    found = await manager.get("Q")
    assert found is not None
    await manager.ack(found)
    rows = [row async for row in manager.admin.history()]
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    sections = [(section.kind, section.messages) for row in rows for section in row.sections]
    assert sections == [*[(history.PUT, 1)] * 5, (history.DELIVERED, 1), (history.SETTLED, 1)]
    assert [row.seq async for row in manager.admin.history(2, 4)] == [3, 4]
    assert (await manager.admin.history_read(0, 0, 1))["rows"] == [[1, rows[0].data]]


async def test_cursor_keeps_what_is_behind_it(manager: QueueManager) -> None:
    for _ in range(3):
        await manager.put("Q", b"x")
    assert (await manager.admin.cursor_commit("LAKE", 2))["waiting"] == 1
    await manager.put("Q", b"x")
    assert [row.seq async for row in manager.admin.history()] == [3, 4]
    shown = await manager.admin.history_show()
    assert [row["cursor"] for row in shown["cursors"]] == ["LAKE"]
    with pytest.raises(RequestError) as refused:
        await manager.admin.history_read(1)
    assert refused.value.code == ErrorCode.HISTORY_DROPPED
    await manager.admin.cursor_delete("LAKE")
    assert (await manager.admin.history_show())["cursors"] == []
