"""Tests of the administration of message groups."""

from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_client.aio.groups_admin import GROUPS_PAGE
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.served import serve


async def test_group_is_paused_skipped_and_closed(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        admin = manager.admin
        await admin.queue_create("Q")
        for number in (1, 3):
            await manager.put("Q", b"%d" % number, group=("G", number, False))
        (row,) = [row async for row in admin.groups("Q", incomplete=True)]
        shown = await admin.show_group("Q", "G")
        assert (row["group"], shown["gaps"]) == (shown["group"], [[2, 2]])
        assert (await admin.pause_group("Q", "G"))["state"] == "paused"
        assert (await admin.resume_group("Q", "G"))["state"] == "gap"
        assert (await admin.skip_group("Q", "G", 3))["next"] == 3
        assert (await admin.close_group("Q", "G"))["last"] == 3
        with pytest.raises(RequestError) as caught:
            await admin.reassign_group("Q", "G")
        assert caught.value.code is ErrorCode.GROUP_NO_READER


async def test_groups_come_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GROUPS_PAGE > 2
    monkeypatch.setattr("qmgr_client.aio.groups_admin.GROUPS_PAGE", 2)
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        for name in "ABCDE":
            await manager.put("Q", b"x", group=(name, 1, True))
        assert len([row async for row in manager.admin.groups("Q")]) == 5
