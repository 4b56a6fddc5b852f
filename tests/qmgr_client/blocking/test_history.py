"""Tests of history without asyncio, with a real daemon in a thread."""

from pathlib import Path

from qmgr_client.blocking import connect
from tests.qmgr_client.served import Server


def test_rows_come_to_a_loop_and_cursors_hold_them(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q", accounting="on")
        for _ in range(250):
            client.put("Q", b"x")
        rows = list(client.admin.history())
        assert sum(section.messages for row in rows for section in row.sections) == 250
        assert client.admin.cursor_commit("LAKE", rows[-1].seq)["waiting"] == 0
        assert client.admin.history_read(rows[-1].seq)["rows"] == []
        assert [row["cursor"] for row in client.admin.history_show()["cursors"]] == ["LAKE"]
        client.admin.cursor_delete("LAKE")
