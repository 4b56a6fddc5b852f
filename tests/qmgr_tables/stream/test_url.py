"""Tests of the histories of running queue managers, as a stream sees them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.blocking import Client, connect
from qmgr_tables.stream import managers as stream_managers
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.history_feed import State
from qmgr_tables.stream.options import parse
from qmgr_tables.stream.source import Offsets, StreamPart
from qmgr_tables.stream.url import Histories
from qmgr_tables.tables.history_batch import SCHEMA
from tests.qmgr_client.served import Server, address_of


def histories(*directories: Path, **options: str) -> Histories:
    urls = ",".join(address_of(directory) for directory in directories)
    return Histories(parse({"url": urls, "cursor": "lake", "waitMs": "0", **options}))


@contextmanager
def served(directory: Path) -> Iterator[Client]:
    with Server(directory), connect(address_of(directory)) as client:
        client.admin.queue_create("Q", accounting="on")
        yield client


def happen(client: Client, count: int) -> int:
    """Creates *count* events, each with one row of history. Returns the last row."""
    for _ in range(count):
        client.put("Q", b"x")
    last: int = client.admin.history_show()["next"] - 1
    return last


def store_of(client: Client) -> str:
    store_id: str = client.admin.history_show()["store_id"]
    return store_id


def cursor_of(client: Client) -> int | None:
    cursors = {row["cursor"]: row["position"] for row in client.admin.history_show()["cursors"]}
    return cursors.get("lake")


def read(source: Histories, start: Offsets, end: Offsets, **options: str) -> list[dict[str, Any]]:
    of = source._options.of
    parts = source.parts(start, end, of._replace(**{k: int(v) for k, v in options.items()}))  # type: ignore[arg-type]
    return rows_of(parts, source)


def rows_of(parts: list[StreamPart], source: Histories) -> list[dict[str, Any]]:
    of = source._options.of
    return [row for part in parts for batch in part.read(of, SCHEMA) for row in batch.to_pylist()]


def test_cursor_keeps_history_from_the_beginning_on(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 3)
        source = histories(tmp_path)
        store = store_of(client)
        assert cursor_of(client) is None
        assert source.begin() == {store: 0}
        assert cursor_of(client) == 0
        assert source.ends({store: 0}, wait=False) == {store: 3}
        assert source.lasts() == {store: 3}
        found = read(source, {store: 0}, {store: 3}, min_partitions="2")
        assert [(row["seq"], row["event"], row["snapshot_id"]) for row in found] == [
            (1, "put", None),
            (2, "put", None),
            (3, "put", None),
        ]
        assert [row["seq"] for row in read(source, {store: 1}, {store: 2})] == [2]
        assert read(source, {store: 3}, {store: 3}) == []
        assert [(seq, events) for seq, events, _ in source.sizes(store, 1, 3)] == [(2, 1), (3, 1)]
        source.commit({store: 2})
        source.commit({store: 2})
        source.commit({store: 1})
        assert cursor_of(client) == 2
        source.close()


def test_latest_leaves_out_what_is_there_and_a_cursor_that_is_there_decides(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 3)
        store = store_of(client)
        latest = histories(tmp_path, startingOffsets="latest")
        assert latest.begin() == {store: 3} == {store: cursor_of(client)}
        happen(client, 2)
        assert latest.begin() == {store: 3}
        assert histories(tmp_path).begin() == {store: 3}


def test_store_that_comes_later_is_begun_before_it_is_read(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    with served(one) as first, served(two) as second:
        happen(first, 2)
        happen(second, 3)
        stores = store_of(first), store_of(second)
        source = histories(one, two)
        start = {stores[0]: 1}
        end = source.ends(start, wait=False)
        assert end == {stores[0]: 2, stores[1]: 0}
        assert [row["seq"] for row in read(source, start, end)] == [2]
        assert source.ends(end, wait=False) == {stores[0]: 2, stores[1]: 3}
        found = read(source, end, {stores[0]: 2, stores[1]: 3})
        assert {(row["store_id"], row["seq"]) for row in found} == {
            (stores[1], 1),
            (stores[1], 2),
            (stores[1], 3),
        }


def test_queue_manager_that_is_away_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_managers, "REST_S", 0.0)
    monkeypatch.setattr(stream_managers, "REST_DIALS", 0)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    source = histories(one, two, waitMs="3600000")
    with served(one) as first:
        with served(two) as second:
            stores = store_of(first), store_of(second)
            start = source.begin()
        happen(first, 2)
        assert source.ends(start, wait=False) == {stores[0]: 2, stores[1]: 0}
        start = {stores[0]: 1, stores[1]: 0}
        source.commit(start)
        assert cursor_of(first) == 1
        with served(two) as second:
            last = happen(second, 1)
            assert source.ends(start, wait=False) == {stores[0]: 2, stores[1]: last}
    impatient = histories(one)
    with pytest.raises(ManagerAway, match="is qmgrd running there"):
        impatient.ends(start, wait=False)
    with pytest.raises(ManagerAway, match="waited for 0 ms"):
        impatient.begin()


def test_commit_that_cannot_be_done_is_done_by_the_next(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 4)
        store = store_of(client)
        source = histories(tmp_path)
        start = source.begin()
        source.ends(start, wait=False)
    source.commit({store: 1})
    with served(tmp_path) as client:
        assert cursor_of(client) == 0
        source.commit({store: 2})
        assert cursor_of(client) == 2
        source.commit({"unknown": 2})


def test_cursor_that_was_deleted_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path) as client:
        happen(client, 4)
        store = store_of(client)
        source = histories(tmp_path)
        source.begin()
        client.admin.cursor_delete("lake")
        assert source.ends({store: 2}, wait=False) == {store: 4}
        assert cursor_of(client) == 2
        assert "cursor lake does not exist; creating it again" in caplog.text


def test_history_that_is_gone_is_an_error_or_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path) as client:
        happen(client, 6)
        store = store_of(client)
        client.admin.cursor_commit("lake", 4)
        happen(client, 1)
        assert client.admin.history_show()["first"] == 5
        with pytest.raises(DataLost, match="rows 2 to 4 of history were deleted"):
            histories(tmp_path).ends({store: 1}, wait=False)
        source = histories(tmp_path, failOnDataLoss="false")
        assert source.ends({store: 1}, wait=False) == {store: 7}
        assert [row["seq"] for row in read(source, {store: 1}, {store: 7})] == [5, 6, 7]
        assert "rows 2 to 4 of history were deleted" in caplog.text


def test_store_that_was_restored_is_an_error_or_gone_on_with(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 3)
        store = store_of(client)
        with pytest.raises(DataLost, match="up to row 9, but ends with row 3: the"):
            histories(tmp_path).ends({store: 9}, wait=False)
        source = histories(tmp_path, failOnDataLoss="false")
        assert source.ends({store: 9}, wait=False) == {store: 3}
        assert read(source, {store: 9}, {store: 3}) == []


def test_cursor_that_went_back_betrays_a_store_that_was_restored(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 5)
        store = store_of(client)
        client.admin.cursor_commit("other", 2)
        source = histories(tmp_path)
        source.ends(source.begin(), wait=False)
        source.commit({store: 4})
        client.admin.cursor_delete("lake")
        client.admin.cursor_commit("lake", 3)
        with pytest.raises(
            DataLost, match="cursor lake moved back to row 3: the store was restored"
        ):
            source.ends({store: 4}, wait=False)


def test_store_that_is_nowhere_is_an_error_or_left_behind(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 1)
        store = store_of(client)
        with pytest.raises(DataLost, match="none of these has store 0000 any more: name the"):
            histories(tmp_path).ends({store: 0, "0000": 5}, wait=False)
        source = histories(tmp_path, failOnDataLoss="false")
        # If the store appears again, the stream continues from this position.
        assert source.ends({store: 0, "0000": 5}, wait=False) == {store: 1, "0000": 5}
        with pytest.raises(DataLost, match="none of these has store 0000 of the checkpoint"):
            source.parts({"0000": 1}, {"0000": 2}, source._options.of)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_checkpoint_of_messages_is_named(tmp_path: Path, fail: str) -> None:
    with served(tmp_path) as client:
        start = {f"{store_of(client)}/1": 5}
        with pytest.raises(
            DataLost, match="/1', which is not a history: it belongs to a stream of"
        ):
            histories(tmp_path, failOnDataLoss=fail).ends(start, wait=False)


def test_cursor_that_loses_a_race_with_a_limit_begins_where_history_does(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 3)
        client.admin.cursor_commit("other", 2)
        happen(client, 1)
        source = histories(tmp_path)
        url = address_of(tmp_path)
        stale = State("QM1", store_of(client), 1, 4, {})
        assert source._new(url, stale) == client.admin.history_show()["first"] - 1


def test_same_parts_whenever_they_are_asked_for(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        happen(client, 9)
        store = store_of(client)
        first = histories(tmp_path)
        planned = first.parts({store: 0}, {store: 6}, first._options.of)
        happen(client, 5)
        again = histories(tmp_path)
        assert again.parts({store: 0}, {store: 6}, again._options.of) == planned
        assert [row["seq"] for row in rows_of(planned, again)] == [1, 2, 3, 4, 5, 6]
