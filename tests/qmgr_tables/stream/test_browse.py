"""Tests of messages in running queue managers, as a stream sees them."""

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from qmgr_client.blocking import Client, connect
from qmgr_tables.stream import browse as stream_browse
from qmgr_tables.stream import managers as stream_managers
from qmgr_tables.stream import queue_feed
from qmgr_tables.stream.browse import Browsing, Ranges
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.limit import admitted
from qmgr_tables.stream.options import parse
from qmgr_tables.stream.source import Offsets, StreamPart
from qmgr_tables.tables.registry import TABLES
from tests.qmgr_client.served import Server, address_of
from tests.qmgr_tables.random_traffic import RandomTraffic

SCHEMA = TABLES["messages"].schema


def browsing(*directories: Path, **options: str) -> Browsing:
    urls = ",".join(address_of(directory) for directory in directories)
    # By default, SYSTEM queues are streamed as well.
    asked = {"queuesPattern": "[^S].*", "waitMs": "0", **options}
    return Browsing(parse({"url": urls, "table": "messages", **asked}))


@contextmanager
def served(directory: Path) -> Iterator[Client]:
    directory.mkdir(exist_ok=True)
    with Server(directory), connect(address_of(directory)) as client:
        client.admin.queue_create("Q")
        yield client


def offset_of(client: Client, queue: str = "Q") -> str:
    """Returns the name of *queue* in an offset."""
    return f"{client.admin.status()['store_id']}/{client.admin.queue_show(queue)['queue_id']}"


def begun_of(client: Client) -> str:
    """Returns the mark, in an offset, of a stream that starts at the latest position."""
    return f"{client.admin.status()['store_id']}/0"


def put(client: Client, count: int, queue: str = "Q") -> None:
    client.put_many(queue, [b"x"] * count)


def consume(client: Client, count: int, queue: str = "Q") -> None:
    while count:
        found = client.get_many(queue, count)
        client.ack_many(found)
        count -= len(found)


def read(source: Browsing, start: Offsets, end: Offsets) -> list[tuple[str, int]]:
    return rows_of(source.parts(start, end, source._options.of), source)


def rows_of(parts: list[StreamPart], source: Browsing) -> list[tuple[str, int]]:
    rows = [
        row
        for part in parts
        for batch in part.read(source._options.of, SCHEMA)
        for row in batch.to_pylist()
    ]
    assert {(row["snapshot_id"], row["turn"]) for row in rows} <= {(None, None)}
    return [(row["queue"], row["arrival"]) for row in rows]


def ranges(source: Browsing, start: Offsets, end: Offsets) -> list[list[tuple[str, int, int]]]:
    """Returns the ranges of each task: queue, arrival before the range, and last arrival."""
    found = []
    for part in source.parts(start, end, source._options.of):
        assert isinstance(part, Ranges)
        found.append([(one.queue, one.after, one.until) for one in part.ranges])
    return found


def test_each_message_comes_once_and_what_is_consumed_before_does_not(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 5)
        consume(client, 2)
        source, name = browsing(tmp_path), offset_of(client)
        start = source.begin()
        assert (start, source.lasts()) == ({name: 0}, {name: 5})
        end = source.ends(start, wait=False)
        assert end == {name: 5}
        put(client, 1)
        assert read(source, start, end) == [("Q", 3), ("Q", 4), ("Q", 5)]
        consume(client, 1)
        assert read(source, start, end) == [("Q", 4), ("Q", 5)]
        assert read(source, end, end) == []
        assert read(source, {}, end) == []
        assert [(at, many) for at, many, _ in source.sizes(name, 0, 5)] == [(4, 1), (5, 1), (5, 0)]
        assert all(size > 0 for _, many, size in source.sizes(name, 0, 5) if many)
        assert read(source, end, source.ends(end, wait=False)) == [("Q", 6)]
        source.commit(end)
        source.close()
        source.close()


def test_latest_is_what_the_first_batch_says_also_where_it_is_read_again(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 3)
        source, name = browsing(tmp_path, startingOffsets="latest"), offset_of(client)
        start = source.begin()
        first = source.ends(start, wait=False)
        assert (start, first) == ({}, {begun_of(client): 0, name: 3})
        put(client, 2)
        assert source.ends(start, wait=False) == first
        again = browsing(tmp_path, startingOffsets="latest")
        assert again.begin() == start
        assert read(again, start, first) == []
        assert read(again, first, again.ends(first, wait=False)) == [("Q", 4), ("Q", 5)]


def test_latest_where_nothing_is_yet_has_all_that_comes(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        source = browsing(tmp_path, startingOffsets="latest", queues="NEW")
        start = source.begin()
        first = source.ends(start, wait=False)
        assert (start, first) == ({}, {begun_of(client): 0})
        client.admin.queue_create("NEW")
        put(client, 2, "NEW")
        again = browsing(tmp_path, startingOffsets="latest", queues="NEW")
        begun = again.ends(first, wait=True)
        assert begun == first | {offset_of(client, "NEW"): 0}
        assert read(again, begun, again.ends(begun, wait=False)) == [("NEW", 1), ("NEW", 2)]


def test_latest_of_which_all_queues_were_deleted_has_all_of_those_that_come(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 3)
        source = browsing(tmp_path, startingOffsets="latest", queues="Q")
        first = source.ends(source.begin(), wait=False)
        client.admin.queue_delete("Q", purge=True)
        none = source.ends(first, wait=False)
        assert none == {begun_of(client): 0} == source.lasts()
        client.admin.queue_create("Q")
        put(client, 2)
        begun = source.ends(none, wait=False)
        assert begun == none | {offset_of(client): 0}
        assert read(source, begun, source.ends(begun, wait=False)) == [("Q", 1), ("Q", 2)]


def test_queue_that_comes_later_is_begun_before_it_is_read(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 1)
        source = browsing(tmp_path)
        start = source.ends(source.begin(), wait=False)
        client.admin.queue_create("NEW")
        put(client, 2, "NEW")
        end = source.ends(start, wait=False)
        assert end == start | {offset_of(client, "NEW"): 0}
        assert read(source, start, end) == []
        assert read(source, end, source.ends(end, wait=False)) == [("NEW", 1), ("NEW", 2)]


def test_queue_that_is_deleted_drops_out_and_another_of_its_name_is_new(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 3)
        source, old = browsing(tmp_path), offset_of(client)
        planned = source.parts({old: 0}, {old: 3}, source._options.of)
        client.admin.queue_delete("Q", purge=True)
        assert rows_of(planned, source) == []
        client.admin.queue_create("Q")
        put(client, 3)
        new = offset_of(client)
        assert new != old
        assert rows_of(planned, source) == []
        assert read(source, {old: 0}, {old: 3}) == []
        assert source.ends({old: 2}, wait=False) == {new: 0}
        assert list(source.sizes(old, 2, 3)) == [(3, 0, 0)]
        assert read(browsing(tmp_path), {old: 0}, {old: 3}) == []


def test_queue_that_is_not_wanted_any_more_keeps_its_place(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        client.admin.queue_create("OTHER")
        put(client, 3)
        put(client, 3, "OTHER")
        names = {"Q": offset_of(client), "OTHER": offset_of(client, "OTHER")}
        start = {names["Q"]: 1, names["OTHER"]: 2}
        source = browsing(tmp_path, queues="OTHER")
        end = source.ends(start, wait=False)
        assert end == {names["Q"]: 1, names["OTHER"]: 3}
        assert read(source, start, end) == [("OTHER", 3)]
        assert source.lasts() == {names["OTHER"]: 3}
        again = browsing(tmp_path)
        assert read(again, end, again.ends(end, wait=False)) == [("Q", 2), ("Q", 3)]
        assert browsing(tmp_path, queuesPattern="O.*").begin() == {names["OTHER"]: 0}


def test_what_applications_do_not_put_to_is_not_streamed(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        client.admin.queue_create("ALIAS", alias_of="Q")
        client.admin.link_create("NYC", ["127.0.0.1:1"], stopped=True)
        client.admin.queue_create("FAR@NYC")
        client.admin.subscription_create("flights/#", ":late")
        client.publish("flights/JFK", b"late")
        client.put("FAR@NYC", b"away")
        client.put("ALIAS", b"by another name")
        source = browsing(tmp_path, queuesPattern=".*")
        start = source.begin()
        assert read(source, start, source.ends(start, wait=False)) == [("Q", 1)]


def test_name_of_what_is_not_streamed_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path) as client:
        client.admin.queue_create("ALIAS", alias_of="Q")
        client.admin.queue_create("SAME", alias_of="Q")
        source = browsing(tmp_path, queues="Q,ALIAS,LATER", queuesPattern=".*")
        source.ends(source.ends(source.begin(), wait=False), wait=False)
        told = [record.message for record in caplog.records]
        url = address_of(tmp_path)
        why = "is not streamed, because its kind is alias: name local queues"
        assert told == [f"qmgr: {url}: queue ALIAS {why}"]


def test_store_that_was_restored_is_an_error_or_gone_on_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path) as client:
        put(client, 3)
        name = offset_of(client)
        with pytest.raises(
            DataLost, match="queue Q was read up to arrival 9, but ends at 3: the st"
        ):
            browsing(tmp_path).ends({name: 9}, wait=False)
        source = browsing(tmp_path, failOnDataLoss="false")
        assert source.ends({name: 9}, wait=False) == {name: 3}
        assert "was restored to an earlier state" in caplog.text
        assert read(source, {name: 9}, {name: 3}) == []


def test_store_that_is_nowhere_is_an_error_or_left_behind(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 1)
        start = {offset_of(client): 0, "0000/7": 5}
        with pytest.raises(DataLost, match="none of these has store 0000 any more: name the"):
            browsing(tmp_path).ends(start, wait=False)
        source = browsing(tmp_path, failOnDataLoss="false")
        # If the store appears again, the stream continues from this position.
        assert source.ends(start, wait=False) == {offset_of(client): 1, "0000/7": 5}
        with pytest.raises(DataLost, match="none of these has store 0000 of the checkpoint"):
            read(source, {"0000/7": 1}, {"0000/7": 2})


def test_task_that_meets_another_store_says_so(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 3)
        source, name = browsing(tmp_path), offset_of(client)
        (part,) = source.parts({name: 0}, {name: 3}, source._options.of)
    with served(tmp_path / "other") as client:
        # queues with a different id, with the same id, and without this name
        for queue in ("Q", "R", "S"):
            moved = part._replace(  # type: ignore[attr-defined]
                address=address_of(tmp_path / "other"),
                ranges=tuple(one._replace(queue=queue) for one in part.ranges),  # type: ignore[attr-defined]
            )
            with pytest.raises(DataLost, match=r", not .*: name the address of that store"):
                rows_of([moved], source)
            if queue == "Q":
                client.admin.queue_create("R")


def test_checkpoint_of_another_table_is_named(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        store_id = client.admin.status()["store_id"]
        source = browsing(tmp_path)
        for ask in (
            lambda: source.ends({store_id: 3}, wait=False),
            lambda: read(source, {store_id: 0}, {store_id: 3}),
        ):
            with pytest.raises(
                DataLost, match="which is not a queue: it belongs to a stream of anot"
            ):
                ask()


def test_queue_manager_that_is_away_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_managers, "REST_S", 0.0)
    monkeypatch.setattr(stream_managers, "REST_DIALS", 0)
    one, two = tmp_path / "one", tmp_path / "two"
    source = browsing(one, two, waitMs="3600000")
    with served(one) as first:
        with served(two) as second:
            names = offset_of(first), offset_of(second)
            put(second, 2)
            start = source.begin()
            start = source.ends(start, wait=False)
            assert start == {names[0]: 0, names[1]: 2}
        put(first, 2)
        end = source.ends(start, wait=False)
        assert end == {names[0]: 2, names[1]: 2}
        assert read(source, start, end) == [("Q", 1), ("Q", 2)]
        with served(two) as second:
            put(second, 1)
            assert source.ends(end, wait=False) == {names[0]: 2, names[1]: 3}
    with pytest.raises(ManagerAway, match="is qmgrd running there"):
        browsing(one).ends(start, wait=False)
    with pytest.raises(ManagerAway, match="waited for 0 ms"):
        browsing(one).begin()


def test_short_ranges_share_a_task_and_long_ones_are_cut(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        counts = {"A": 3, "B": 2, "C": 10, "D": 1}
        for queue, count in counts.items():
            client.admin.queue_create(queue)
            put(client, count, queue)
        source = browsing(tmp_path, rowsPerPartition="4")
        start = source.begin()
        end = source.ends(start, wait=False)
        assert ranges(source, start, end) == [
            [("A", 0, 3)],
            [("B", 0, 2)],
            [("C", 0, 3)],
            [("C", 3, 6)],
            [("C", 6, 10)],
            [("D", 0, 1)],
        ]
        assert sorted(read(source, start, end)) == [
            (queue, at) for queue, count in counts.items() for at in range(1, count + 1)
        ]
        assert len(ranges(browsing(tmp_path), start, end)) == 1
        assert len(ranges(browsing(tmp_path, minPartitions="8"), start, end)) >= 8


def test_queue_of_which_little_is_left_has_few_tasks(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 2_000)
        client.put("Q", b"first to go", priority=9)
        consume(client, 1_998)  # Of 2,001 messages, the last one was consumed first.
        put(client, 10)
        source, name = browsing(tmp_path, rowsPerPartition="10"), offset_of(client)
        end = source.ends({name: 0}, wait=False)
        assert end == {name: 2_011}
        assert ranges(source, {name: 0}, end) == [[("Q", 1_997, 2_004)], [("Q", 2_004, 2_011)]]


def test_straggler_far_behind_the_others_makes_no_empty_tasks(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        client.put("Q", b"tomorrow", delay_ms=86_400_000)
        put(client, 2_000)
        consume(client, 1_995)
        source, name = browsing(tmp_path, rowsPerPartition="10"), offset_of(client)
        end = source.ends({name: 0}, wait=False)
        assert len(ranges(source, {name: 0}, end)) <= 3
        assert read(source, {name: 0}, end) == [("Q", at) for at in (1, *range(1_997, 2_002))]


def test_parts_travel_and_say_the_same_there(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        put(client, 5)
        source, name = browsing(tmp_path, rowsPerPartition="2"), offset_of(client)
        parts = source.parts({name: 0}, {name: 5}, source._options.of)
        there = pickle.loads(pickle.dumps(parts))
        assert there == parts
        assert rows_of(there, source) == [("Q", at) for at in range(1, 6)]
        assert len(pickle.dumps(parts[0])) < 1_000


def test_batches_keep_to_their_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_browse, "BATCH_ROWS", 3)
    monkeypatch.setattr(stream_browse, "BATCH_BYTES", 5_000)
    with served(tmp_path) as client:
        put(client, 7)
        client.put_many("Q", [b"x" * 4_000] * 3)
        source, name = browsing(tmp_path), offset_of(client)
        (part,) = source.parts({name: 0}, {name: 10}, source._options.of)
        found = [batch.num_rows for batch in part.read(source._options.of, SCHEMA)]
        assert found == [3, 3, 3, 1]
        few = SCHEMA.empty_table().select(["body", "queue"]).schema
        (batch, *_) = part.read(source._options.of, few)
        assert batch.schema == few


def test_messages_that_are_not_wanted_are_left_out_for_good(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        client.put("Q", b"later", delay_ms=86_400_000)
        client.put("Q", b"now")
        source, name = browsing(tmp_path, states="ready"), offset_of(client)
        end = source.ends({name: 0}, wait=False)
        assert (end, read(source, {name: 0}, end)) == ({name: 2}, [("Q", 2)])


def test_pages_are_of_no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path) as client:
        put(client, 7)
        source, name = browsing(tmp_path), offset_of(client)
        expected = sizes(source, name)
        monkeypatch.setattr(queue_feed, "PAGE_BYTES", 1)
        assert sizes(source, name) == expected
        assert read(source, {name: 2}, {name: 6}) == [("Q", at) for at in range(3, 7)]


def sizes(source: Browsing, name: str) -> list[Any]:
    return list(source.sizes(name, 0, 7))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))]
)
def test_each_message_that_stays_comes_exactly_once_whatever_happens(
    tmp_path: Path, seed: int
) -> None:
    """Tasks run again at random, and either the first or the second result counts."""
    chance = Random(seed)
    traffic = RandomTraffic(tmp_path, seed)
    rows_max = chance.choice([None, 7, 40])
    source = browsing(
        tmp_path, queuesPattern=".*", waitMs="60000", rowsPerPartition=chance.choice(["3", "30"])
    )
    had: Counter[tuple[str, int]] = Counter()
    offset = source.begin()

    def batch(*, meanwhile: bool) -> Offsets:
        ends = source.ends(offset, wait=False)
        end = admitted(offset, ends, source.sizes, rows_max, None)
        parts = source.parts(offset, end, source._options.of)
        if meanwhile:
            traffic.go_on(5)
        again = chance.choice(parts) if meanwhile and parts else None
        for part in parts:
            tries = [rows_of([part], source)]
            if part is again:
                if chance.random() < 0.3:
                    traffic.restart()
                traffic.go_on(10)
                tries.append(rows_of([part], source))
                assert set(tries[1]) <= set(tries[0])
            had.update(chance.choice(tries))
        return end

    try:
        for _ in range(12):
            traffic.go_on(20)
            offset = batch(meanwhile=True)
        traffic.come_to_rest()
        while (end := batch(meanwhile=False)) != offset:
            offset = end
        assert max(had.values()) == 1
        assert traffic.there() - had.keys() == set()
    finally:
        traffic.close()
