"""Tests that history read over the protocol is complete and ordered, and losses are reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from qmgr_client.blocking import Client, connect
from qmgr_client.manager_rows import HistoryPage
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tables.stream import history_feed
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.history_feed import HistoryFeed
from tests.qmgr_client.served import Server, address_of


@contextmanager
def served(directory: Path) -> Iterator[tuple[Client, HistoryFeed]]:
    """Yields a client of a daemon, and a feed from that daemon."""
    address = address_of(directory)
    with Server(directory), connect(address) as client, HistoryFeed(address, 0) as feed:
        yield client, feed


def happen(client: Client, count: int) -> None:
    client.admin.queue_create("Q", accounting="on")
    for _ in range(count):
        client.put("Q", b"x")


def seqs(feed: HistoryFeed, after: int = 0, until: int = 0) -> list[int]:
    state = feed.state()
    return [seq for seq, _ in feed.rows(state.store_id, after, until or state.last)]


def test_rows_come_once_in_order_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_feed, "PAGE_BYTES", 300)
    with served(tmp_path) as (client, feed):
        happen(client, 20)
        assert seqs(feed) == list(range(1, 21))
        assert seqs(feed, 7, 9) == [8, 9]
        assert seqs(feed, 9, 9) == []
        state = feed.state()
        assert (state.queue_manager, state.first, state.last) == ("QM1", 1, 20)
        assert feed.commit("lake", 5) == 5
        assert feed.commit("lake", 3) == 5
        assert feed.state().cursors == {"lake": 5}


def test_daemon_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        happen(client, 5)
        feed = HistoryFeed(server.address, 60_000)
        rows = feed.rows(feed.state().store_id, 0, 5)
        assert next(rows)[0] == 1
    with feed:
        with pytest.raises(ManagerAway, match="waited for 0 ms"):
            feed.state(0)
        with Server(tmp_path):
            assert [seq for seq, _ in rows] == [2, 3, 4, 5]
            assert feed.state().last == 5


def test_rows_that_were_dropped_are_lost_or_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        happen(client, 8)
        client.admin.cursor_commit("other", 5)
        client.put("Q", b"x")  # The turn of this put deletes the rows.
        with HistoryFeed(server.address, 0) as feed:
            assert feed.state().first == 6
            with pytest.raises(DataLost, match="rows 1 to 5 of history: HISTORY_DROPPED: "):
                seqs(feed)
        with HistoryFeed(server.address, 0, skip_lost=True) as feed:
            assert seqs(feed) == [6, 7, 8, 9]
            assert seqs(feed, 1, 4) == []
            assert "skipped rows 1 to 5 of history" in caplog.text
            assert seqs(feed, 20, 30) == []
        with HistoryFeed(server.address, 0) as feed, pytest.raises(DataLost, match="HISTORY_AHEAD"):
            seqs(feed, 20, 30)


def test_other_store_is_no_answer(tmp_path: Path) -> None:
    with served(tmp_path) as (client, feed):
        happen(client, 2)
        with pytest.raises(DataLost, match="of QM1, not 0123: name the address"):
            list(feed.rows("0123", 0, 2))


class Scripted(HistoryFeed):
    """A feed of a damaged history."""

    def __init__(self, rows: dict[int, bytes | RequestError], *, skip_lost: bool) -> None:
        super().__init__("nowhere:1", 0, skip_lost=skip_lost)
        self.stored = rows

    def _page(self, store_id: str, after: int, until: int) -> HistoryPage:
        there = [seq for seq in sorted(self.stored) if after < seq <= until]
        found: list[list[object]] = []
        for seq in there:
            row = self.stored[seq]
            if isinstance(row, RequestError):
                if found:
                    break
                raise row
            found.append([seq, row])
        return cast(HistoryPage, {"rows": found})


DAMAGED = RequestError(ErrorCode.STORE_DAMAGED, "history row id 3: its checksum is wrong")


def test_damaged_and_missing_rows_are_lost_or_skipped() -> None:
    rows: dict[int, bytes | RequestError] = {1: b"", 2: b"", 3: DAMAGED, 4: b"", 6: b""}
    assert [seq for seq, _ in Scripted(rows, skip_lost=True).rows("", 0, 7)] == [1, 2, 4, 6]
    with pytest.raises(DataLost, match="rows 3 to 3 of history: STORE_DAMAGED: history row"):
        list(Scripted(rows, skip_lost=False).rows("", 0, 7))
    with pytest.raises(DataLost, match="row 5 of history is missing"):
        list(Scripted({4: b"", 6: b""}, skip_lost=False).rows("", 3, 6))
    with pytest.raises(DataLost, match="row 7 of history is missing"):
        list(Scripted(rows, skip_lost=False).rows("", 6, 7))


def test_other_refusals_are_handed_on() -> None:
    refused = RequestError(ErrorCode.INTERNAL_ERROR, "a bug")
    with pytest.raises(RequestError, match="a bug"):
        list(Scripted({1: refused}, skip_lost=True).rows("", 0, 1))
