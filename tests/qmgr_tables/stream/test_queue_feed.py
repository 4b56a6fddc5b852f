"""Tests of messages read over the protocol, in order of arrival, in pages and across restarts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, connect
from qmgr_client.outgoing import Outgoing
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tables.stream import queue_feed
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.queue_feed import Page, QueueExtent, QueueFeed, arrival_of
from tests.qmgr_client.served import Server, address_of


@contextmanager
def served(directory: Path) -> Iterator[tuple[Client, QueueFeed]]:
    """Yields a client of a daemon, and a feed from that daemon."""
    address = address_of(directory)
    with Server(directory), connect(address) as client, QueueFeed(address, 0) as feed:
        yield client, feed


def pages(
    feed: QueueFeed, queue: str, after: int = 0, until: int = 1 << 40, messages_max: int = 1_000
) -> Iterator[Page]:
    """Returns the pages of *queue* in its current state."""
    state = feed.state()
    (queue_id,) = (queue_id for queue_id, found in state.queues.items() if found.queue == queue)
    return feed.pages(state.store_id, queue, queue_id, after, until, messages_max)


def arrivals(found: Iterator[Page]) -> list[list[int]]:
    return [[arrival_of(item) for item in page.items] for page in found]


def test_state_has_the_queues_that_applications_put_to_and_no_others(tmp_path: Path) -> None:
    with served(tmp_path) as (client, feed):
        client.admin.queue_create("Q")
        client.admin.queue_create("OTHER", alias_of="Q")
        client.admin.link_create("NYC", ["127.0.0.1:1"], stopped=True)
        client.admin.queue_create("FAR@NYC")
        client.admin.subscription_create("flights/#", ":late")
        client.publish("flights/JFK", b"late")
        client.put("FAR@NYC", b"away")
        client.put("OTHER", b"by another name")
        state = feed.state()
        assert (state.queue_manager, state.store_id) == ("QM1", client.admin.status()["store_id"])
        found = {extent.queue: extent.arrived for extent in state.queues.values()}
        assert found.pop("Q") == 1
        assert all(name.startswith("SYSTEM.") for name in found)
        assert {row["kind"] for row in client.admin.queue_list()} > {
            "local",
            "alias",
            "transmission",
        }
        assert state.others.items() >= {("OTHER", "alias"), ("FAR@NYC", "remote")}


def test_open_unit_of_work_holds_the_extent_back(tmp_path: Path) -> None:
    with served(tmp_path) as (client, feed):
        row = client.admin.queue_create("Q")
        client.put("Q", b"before")
        with client.unit_of_work() as unit:
            unit.put("Q", b"held")
            client.put("Q", b"behind it")
            assert feed.state().queues[row["queue_id"]] == QueueExtent("Q", 1)
        assert feed.state().queues[row["queue_id"]] == QueueExtent("Q", 3)
        unit = client.unit_of_work()
        with unit:
            unit.put("Q", b"given up")
            unit.backout()
        assert feed.state().queues[row["queue_id"]] == QueueExtent("Q", 4)
        assert arrivals(pages(feed, "Q")) == [[1, 2, 3]]


def test_pages_come_in_the_order_of_arrival_and_end_where_they_are_reported_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as (client, feed):
        client.admin.queue_create("Q")
        for number in range(10):
            client.put("Q", b"x" * 100, priority=number, delay_ms=60_000 * (number % 2))
        assert arrivals(pages(feed, "Q")) == [list(range(1, 11))]
        assert arrivals(pages(feed, "Q", messages_max=4)) == [[1, 2, 3, 4], [*range(5, 11)]]
        assert arrivals(pages(feed, "Q", 2, 7, 3)) == [[3, 4, 5], [6, 7]]
        assert arrivals(pages(feed, "Q", 7, 7)) == []
        assert arrivals(pages(feed, "Q", 10, 1_000)) == []
        (page,) = pages(feed, "Q", 1, 5)
        assert list(page.delays) == [0, 2]  # The delayed messages have arrivals 2 and 4.
        assert all(0 < ms <= 60_000 for ms in page.delays.values())
        for message in client.get_many("Q", 3):  # These messages have the arrivals 9, 7 and 5.
            client.ack(message)
        assert arrivals(pages(feed, "Q", messages_max=4)) == [[1, 2, 3, 4], [6, 8, 10]]
        assert arrivals(pages(feed, "Q", 0, 5, 4)) == [[1, 2, 3, 4]]
        monkeypatch.setattr(queue_feed, "PAGE_BYTES", 1)  # A page has at least one message.
        assert arrivals(pages(feed, "Q", 5)) == [[6], [8], [10]]


def test_more_that_expired_than_a_page_looks_at_is_skipped(tmp_path: Path) -> None:
    with served(tmp_path) as (client, feed):
        client.admin.queue_create("Q")
        # The daemon does not remove all expired messages in one turn.
        client.put_many("Q", [Outgoing(b"", expiry_ms=1)] * 2_500)
        client.put("Q", b"there")
        assert arrivals(pages(feed, "Q", messages_max=7))[-1][-1] == 2_501


def test_queue_that_is_gone_or_another_by_now_has_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as (client, feed):
        client.admin.queue_create("Q")
        client.put("Q", b"x")
        found = pages(feed, "Q")
        state = feed.state()
        client.admin.queue_delete("Q", purge=True)
        assert list(found) == []
        client.admin.queue_create("Q")
        client.put("Q", b"x")
        (old,) = state.queues.keys() - feed.state().queues.keys()
        assert list(feed.pages(state.store_id, "Q", old, 0, 9)) == []
        client.admin.queue_delete("Q", purge=True)
        client.admin.queue_create("OTHER")
        client.put("OTHER", b"x")
        client.admin.queue_create("Q", alias_of="OTHER")
        assert list(feed.pages(state.store_id, "Q", old, 0, 9)) == []
        client.admin.queue_delete("Q")
        client.admin.link_create("Q", ["127.0.0.1:1"], stopped=True)
        client.admin.queue_create("FAR@Q")
        assert list(feed.pages(state.store_id, "FAR@Q", old, 0, 9)) == []


def test_other_store_is_no_answer_whatever_queues_it_has(tmp_path: Path) -> None:
    with served(tmp_path) as (client, feed):
        row = client.admin.queue_create("Q")
        for queue, queue_id in (("Q", row["queue_id"]), ("Q", 99), ("NONE", 99)):
            with pytest.raises(DataLost, match=r", not 0123: name the address of that store"):
                list(feed.pages("0123", queue, queue_id, 0, 5))


def test_daemon_that_restarts_between_two_pages_is_waited_for(tmp_path: Path) -> None:
    address = address_of(tmp_path)
    with QueueFeed(address, 60_000) as feed:
        with Server(tmp_path), connect(address) as client:
            client.admin.queue_create("Q")
            for number in range(5):
                client.put("Q", b"x", persistent=number != 3)
            found = pages(feed, "Q", messages_max=2)
            assert arrivals(iter([next(found)])) == [[1, 2]]
        with pytest.raises(ManagerAway, match="waited for 0 ms"):
            feed.state(0)
        with Server(tmp_path):
            assert arrivals(found) == [[3, 5]]


def test_refusal_is_handed_on(tmp_path: Path) -> None:
    with served(tmp_path) as (_, feed):
        with pytest.raises(RequestError) as refused:
            list(feed.pages("", "no name!", 1, 0, 5))
        assert refused.value.code == ErrorCode.NAME_INVALID
