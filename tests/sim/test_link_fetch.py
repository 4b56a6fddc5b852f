"""Tests of a queue manager without a reachable address, which sends and fetches (G10).

EWR dials NYC, which does not know EWR's address.
"""

from typing import Any

from qmgr_client.message import PutResult
from qmgr_protocol import messages as m
from qmgrd.core.context.context import Outcome
from qmgrd.core.link.link import Link
from tests.sim.node import Node
from tests.sim.pair import EDGE, HUB, REMOTE, Blind, Caller, Pair, stored


class Counting(Blind):
    """A watch that counts the commits of links, and how many do not travel with a put."""

    puts = 0  # number of messages that links sent
    commits = 0
    alone = 0

    def released(self, node: Node, outcome: Outcome) -> None:
        carried = {number for number, message in outcome.sends if type(message) is m.Put}
        for number, message in outcome.sends:
            self.puts += len(message.records) if type(message) is m.Put else 0
            session = node.turns.broker.sessions.get(number)
            if type(message) is m.Committed and session is not None and session.store_id:
                self.commits += 1
                self.alone += number not in carried


class BothWays(Pair):
    """EWR with a link to NYC that fetches, and NYC with a link to EWR without an address."""

    def __init__(self, connections: int = 1, **sections: Any) -> None:
        super().__init__(sections, sections, linked=False)
        self.watch = self.counting = Counting(self.ledger)
        attributes = {"addresses": [f"{HUB}:7470"], "fetch": True, "connections": connections}
        self.at_edge.ask(lambda i: m.LinkCreate(i, HUB, attributes))
        self.at_edge.ask(lambda i: m.QueueCreate(i, REMOTE))
        self.at_edge.ask(lambda i: m.QueueCreate(i, "REPLIES"))
        self.at_hub.ask(lambda i: m.LinkCreate(i, EDGE, {"addresses": []}))
        self.at_hub.ask(lambda i: m.QueueCreate(i, f"REPLIES@{EDGE}"))
        self.at_home = Caller(self, self.edge, "home")
        self.advance(2_000)  # The link did not exist at first, so it asks again after a second.

    @property
    def back(self) -> Link:
        """The link from which EWR fetches messages."""
        return self.hub.turns.broker.catalogue.links[EDGE]

    def reply(self, count: int) -> list[bytes]:
        bodies = [b"reply %d" % i for i in range(count)]
        results = self.reader.put(f"REPLIES@{EDGE}", bodies)
        assert all(isinstance(result, PutResult) for result in results), results
        return bodies


def test_queue_manager_that_cannot_be_dialled_receives_messages_G10() -> None:
    pair = BothWays()
    bodies = pair.reply(20)
    assert pair.at_home.get("REPLIES") == bodies
    sent = pair.put(5)
    assert pair.reader.get("FLIGHTS") == sent
    pair.advance(1_000)
    assert stored(pair.hub, pair.back.queue) == stored(pair.edge, pair.link.queue) == {}


def test_waiting_messages_are_fetched_once_after_it_returns() -> None:
    pair = BothWays(connections=2)
    pair.edge.die()
    bodies = pair.reply(30)
    assert len(stored(pair.hub, pair.back.queue)) == 30
    pair.edge.start()
    pair.advance(5_000)
    assert sorted(pair.at_home.get("REPLIES")) == sorted(bodies)
    assert len(pair.back.up_paths) == 2


def test_undeliverable_reply_becomes_a_dead_letter_at_home_G10_G18() -> None:
    """The missing queue is on the fetching side, where the message ends after its tries."""
    pair = BothWays(link={"deliver_retries": 2})
    pair.at_hub.ask(lambda i: m.QueueCreate(i, f"NONE@{EDGE}"))
    pair.reader.put(f"NONE@{EDGE}", [b"lost"])
    bodies = pair.reply(3)
    pair.advance(60_000)
    assert sorted(pair.at_home.get("REPLIES")) == sorted(bodies)
    assert pair.at_home.get("SYSTEM.DEAD.LETTERS") == [b"lost"]
    assert stored(pair.hub, pair.back.queue) == {}


def test_restart_of_either_end_during_a_transfer_loses_and_doubles_nothing() -> None:
    pair = BothWays(connections=2, link={"window_messages": 5})
    bodies = pair.reply(40)
    heard: list[bytes] = []
    for node in (pair.hub, pair.edge, pair.hub):
        heard += pair.at_home.get("REPLIES", 7)
        node.die()
        node.start()
        pair.advance(10_000)
    heard += pair.at_home.get("REPLIES")
    assert sorted(heard) == sorted(bodies)


def test_commits_travel_with_puts_in_the_other_direction_B27() -> None:
    """No separate commit is sent while both directions are busy."""
    pair = BothWays(link={"commit_messages": 100, "commit_interval_ms": "1 s"})
    pair.counting.commits = pair.counting.alone = 0
    for _ in range(60):
        pair.reply(20)
        pair.put(20)
    assert pair.counting.commits > 20
    assert pair.counting.alone == 0


def traffic(there_ms: int, back_ms: int, over_ms: int = 3_000) -> Counting:
    """Sends messages in each direction at these intervals in ms (0: none); returns the numbers."""
    pair = BothWays()
    counting = pair.counting
    counting.puts = counting.commits = counting.alone = 0
    for at_ms in range(over_ms):
        if there_ms and at_ms % there_ms == 0:
            pair.put(1)
        if back_ms and at_ms % back_ms == 1:
            pair.reply(1)
        pair.advance(1)
    return counting


def test_traffic_both_ways_needs_no_more_lone_commits_than_one_way_B27() -> None:
    """The commit interval begins with the first message whose commit is not sent yet."""
    one_way = traffic(3, 0)
    assert one_way.puts == 1_000
    assert 40 <= one_way.alone <= 60  # one commit in each link.commit_interval_ms
    both = traffic(3, 3)
    assert both.puts == 2_000
    assert both.alone == 0
    assert both.commits > 1_000


def test_commit_waits_for_a_put_in_the_other_direction_no_longer_than_its_interval_B27() -> None:
    """Each of the rare puts carries a commit. Between puts, commits are sent separately."""
    one_way, both = traffic(3, 0), traffic(3, 200)
    replies = both.puts - one_way.puts
    assert replies == 15
    assert one_way.alone - 2 * replies <= both.alone <= one_way.alone + replies
