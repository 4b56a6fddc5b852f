"""Tests of store-and-forward through intermediate queue managers (G8, G10, G11).

EWR ──▶ NYC ──▶ LAX ──▶ SFO
"""

from itertools import pairwise
from random import Random
from typing import Any

from qmgr_client.message import Outgoing, PutResult, encode
from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.link.link import LinkState
from tests.sim.client import Asker
from tests.sim.lab import Lab
from tests.sim.pair import Blind, Caller, stored

WAY = ("EWR", "NYC", "LAX", "SFO")


class Chain(Lab):
    """A chain of queue managers, each linked to the next, with routes to all later ones."""

    def __init__(self, *, transit: bool = True, circle: bool = False) -> None:
        super().__init__(Random(0))
        self.watch = Blind(self.ledger)
        self.askers = {}
        for name in WAY:
            self.add(
                Config.model_validate({"queue_manager": {"name": name}, "link": {"inbound": "any"}})
            )
            self.askers[name] = Asker(self, f"operator-{name}", name)
        for name, following in pairwise(WAY):
            self.link(name, following, routes=["*"], transit=transit and name != "EWR")
        if circle:
            self.link("LAX", "EWR", routes=["NOWHERE"], transit=True)
        self.askers["SFO"].ask(lambda i: m.QueueCreate(i, "Q"))
        self.askers["EWR"].ask(lambda i: m.QueueCreate(i, "Q@SFO"))
        self.source = Caller(self, self.nodes["EWR"], "app")
        self.target = Caller(self, self.nodes["SFO"], "reader")

    def link(self, name: str, to: str, **attributes: Any) -> None:
        given = {"addresses": [f"{to}:7470"]} | attributes
        self.askers[name].ask(lambda i: m.LinkCreate(i, to, given))

    def put(self, *bodies: bytes, queue: str = "Q@SFO", **fields: Any) -> None:
        core = self.source.core
        tickets = [core.put(queue, encode(Outgoing(body, **fields)), None) for body in bodies]
        self.source.settle_down()
        results = [self.source.results[ticket] for ticket in tickets]
        assert all(isinstance(result, PutResult) for result in results), results

    def waiting(self) -> int:
        links = [
            link
            for node in self.nodes.values()
            if node.up
            for link in node.turns.broker.catalogue.links.values()
        ]
        return sum(link.queue.counters.depth for link in links)


def test_message_passes_each_queue_manager_on_its_route_G10() -> None:
    chain = Chain()
    chain.put(b"1", b"2", b"3")
    chain.advance(2_000)
    assert chain.target.get("Q") == [b"1", b"2", b"3"]
    assert chain.waiting() == 0


def test_priority_holds_on_the_last_hop_as_on_the_first_G11() -> None:
    chain = Chain()
    chain.put(b"low", priority=1)
    chain.put(b"high", priority=8)
    chain.put(b"lower", priority=0)
    chain.advance(2_000)
    assert chain.target.get("Q") == [b"high", b"low", b"lower"]


def test_messages_wait_at_the_last_hop_that_is_up_G8() -> None:
    chain = Chain()
    chain.nodes["LAX"].die()
    chain.put(b"1", b"2")
    chain.advance(2_000)
    nyc = chain.nodes["NYC"].turns.broker.catalogue.links["LAX"]
    assert len(stored(chain.nodes["NYC"], nyc.queue)) == 2
    chain.nodes["LAX"].start()
    chain.advance(60_000)
    assert chain.target.get("Q") == [b"1", b"2"]
    assert chain.waiting() == 0


def test_crash_of_any_hop_at_any_time_loses_and_doubles_nothing() -> None:
    chain = Chain()
    for number, name in enumerate(WAY * 3):
        chain.put(*[b"%d.%d" % (number, i) for i in range(5)])
        node = chain.nodes[name]
        node.die()
        node.start()
        chain.advance(500)
    chain.advance(120_000)
    found = chain.target.get("Q")
    assert sorted(found) == sorted(b"%d.%d" % (n, i) for n in range(12) for i in range(5))
    assert chain.waiting() == 0


def test_message_is_not_forwarded_without_transit() -> None:
    chain = Chain(transit=False)
    chain.put(b"1")
    chain.advance(2_000)
    link = chain.nodes["EWR"].turns.broker.catalogue.links["NYC"]
    assert link.state is LinkState.BLOCKED
    assert "set its attribute transit to forward them" in link.error
    chain.askers["NYC"].ask(lambda i: m.LinkAlter(i, "LAX", {"transit": True}))
    chain.askers["LAX"].ask(lambda i: m.LinkAlter(i, "SFO", {"transit": True}))
    chain.advance(60_000)
    assert chain.target.get("Q") == [b"1"]


def test_message_in_a_circle_becomes_a_dead_letter_where_the_circle_closes() -> None:
    chain = Chain(circle=True)
    chain.askers["EWR"].ask(lambda i: m.QueueCreate(i, "Q@NOWHERE"))
    chain.put(b"lost", queue="Q@NOWHERE")
    chain.put(b"sound")
    chain.advance(60_000)
    assert chain.waiting() == 0
    assert chain.target.get("Q") == [b"sound"]
    reader = Caller(chain, chain.nodes["EWR"], "reader-ewr")
    (dead,) = reader.request(m.Get, "SYSTEM.DEAD.LETTERS", 10, 0, 0, 1 << 30)
    assert dead.body == b"lost"
    assert "EWR -> NYC -> LAX -> EWR" in dead.dead.text


def test_queue_name_may_include_its_own_queue_manager() -> None:
    chain = Chain()
    chain.askers["NYC"].ask(lambda i: m.QueueCreate(i, "LOCAL"))
    chain.askers["EWR"].ask(lambda i: m.LinkAlter(i, "NYC", {"routes": ["*", "NYC2"]}))
    chain.askers["EWR"].ask(lambda i: m.QueueCreate(i, "LOCAL@NYC"))
    chain.put(b"1", queue="LOCAL@NYC")
    reader = Caller(chain, chain.nodes["NYC"], "reader-nyc")
    assert reader.get("LOCAL") == [b"1"]


def test_route_of_a_message_is_in_its_note() -> None:
    chain = Chain()
    chain.put(b"1")
    chain.advance(2_000)
    (message,) = chain.target.request(m.Get, "Q", 10, 0, 0, 1 << 30)
    assert (message.body, message.dead, message.attempts) == (b"1", None, ())


def test_message_that_has_arrived_may_return_over_the_same_route() -> None:
    """The message does not travel in a circle, because an operator moved it."""
    chain = Chain()
    for name, following in pairwise(reversed(WAY)):
        chain.link(name, following, routes=["EWR"], transit=name != "SFO")
    chain.askers["EWR"].ask(lambda i: m.QueueCreate(i, "HOME"))
    chain.askers["SFO"].ask(lambda i: m.QueueCreate(i, "HOME@EWR"))
    chain.put(b"1", b"2")
    chain.advance(2_000)
    chain.askers["SFO"].ask(lambda i: m.QueueMove(i, "Q", "HOME@EWR"))
    chain.advance(10_000)
    assert Caller(chain, chain.nodes["EWR"], "home").get("HOME") == [b"1", b"2"]
    assert chain.waiting() == 0


def test_group_arrives_complete_and_in_order_over_each_hop() -> None:
    """The messages are put out of order, and one hop is down whenever a message arrives."""
    chain = Chain()
    group = b"G" * 24
    numbers = [3, 1, 5, 2, 4]
    for number in numbers:
        chain.put(b"%d" % number, group=(group, number, number == 5))
        node = chain.nodes[WAY[1 + number % 3]]
        node.die()
        chain.advance(700)
        node.start()
    chain.advance(60_000)
    request = (m.Get, "Q", 10, 0, 0, 1 << 30, "", b"", b"", b"", m.LOGICAL, True, 0, 1)
    found = chain.target.request(*request)
    assert [message.body for message in found] == [b"1", b"2", b"3", b"4", b"5"]
    assert chain.waiting() == 0


def test_circle_of_two_ends_as_a_dead_letter_where_it_began() -> None:
    chain = Chain()
    chain.link("NYC", "EWR", routes=["NOWHERE"], transit=True)
    chain.askers["EWR"].ask(lambda i: m.QueueCreate(i, "Q@NOWHERE"))
    chain.put(b"lost", queue="Q@NOWHERE")
    chain.advance(60_000)
    assert chain.waiting() == 0
    reader = Caller(chain, chain.nodes["EWR"], "reader-ewr")
    (dead,) = reader.request(m.Get, "SYSTEM.DEAD.LETTERS", 10, 0, 0, 1 << 30)
    assert "EWR -> NYC -> EWR" in dead.dead.text


def test_remaining_time_is_passed_on_over_each_hop() -> None:
    chain = Chain()
    chain.nodes["LAX"].die()
    chain.put(b"short", expiry_ms=5_000)
    chain.put(b"long", expiry_ms=120_000)
    chain.put(b"late", delay_ms=40_000)
    chain.advance(10_000)
    chain.nodes["LAX"].start()
    chain.advance(20_000)
    assert chain.target.get("Q") == [b"long"]
    chain.advance(20_000)
    assert chain.target.get("Q") == [b"late"]
