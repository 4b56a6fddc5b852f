"""Tests that publications over links reach every subscriber once, and do not travel in circles.

EWR ◀──▶ NYC ◀──▶ LAX ◀──▶ EWR     a ring, with proxies in both directions
"""

from itertools import permutations
from random import Random
from typing import Any

import pytest

from qmgr_client.message import Message, Outgoing, PutResult, decode, encode
from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.record import Uid
from qmgrd.core.catalogue.system import PUBLICATIONS
from tests.sim.client import Asker
from tests.sim.lab import Lab
from tests.sim.pair import Blind, Caller

NAMES = ("EWR", "NYC", "LAX")


class Ring(Lab):
    """Queue managers that are linked in pairs in both directions, each with a subscription."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.watch = Blind(self.ledger)
        self.askers = {}
        for name in NAMES:
            self.add(
                Config.model_validate({"queue_manager": {"name": name}, "link": {"inbound": "any"}})
            )
            self.askers[name] = Asker(self, f"operator-{name}", name)
            self.ask(name, m.Subscribe, "flights/#", ":s")
        self.source = Caller(self, self.nodes["EWR"], "app")

    def ask(self, name: str, kind: type[Any], *fields: Any) -> None:
        self.askers[name].ask(lambda i: kind(i, *fields))

    def link(self, name: str, to: str, **attributes: Any) -> None:
        self.ask(name, m.LinkCreate, to, {"addresses": [f"{to}:7470"]} | attributes)

    def proxy(self, name: str, to: str, where: str = "", proxy: str = "p") -> None:
        self.ask(name, m.Subscribe, "flights/#", f":{proxy}@{to}", where)

    def publish(self, *bodies: bytes, **fields: Any) -> list[Uid | None]:
        core, topic = self.source.core, "/flights/JFK"
        tickets = [core.put(topic, encode(Outgoing(body, **fields)), None) for body in bodies]
        self.source.settle_down()
        found = [self.source.results[ticket] for ticket in tickets]
        self.advance(5_000)
        return [result.uid for result in found if isinstance(result, PutResult)]

    def held(self, name: str) -> list[Message]:
        """Returns the messages on the subscription at queue manager *name*."""
        page = self.askers[name].ask(lambda i: m.Browse(i, ":s"))
        return [decode(item, ":s", 0) for item in page["items"]]

    def kept(self) -> list[int]:
        """The number of publications that each queue manager keeps."""
        asked = [
            asker.ask(lambda i: m.QueueShow(i, PUBLICATIONS)) for asker in self.askers.values()
        ]
        return [row["depth"] for row in asked]


@pytest.fixture
def ring() -> Ring:
    return Ring()


def test_each_subscriber_gets_each_publication_once_in_a_full_mesh(ring: Ring) -> None:
    for name, to in permutations(NAMES, 2):
        ring.link(name, to)
        ring.proxy(name, to)
    uids = ring.publish(b"1", b"2", b"3")
    assert len(set(uids)) == 3
    for name in NAMES:
        found = ring.held(name)
        assert sorted(message.body for message in found) == [b"1", b"2", b"3"]
        assert {message.uid for message in found} == set(uids)
        assert {message.topic for message in found} == {"flights/JFK"}
    assert ring.kept() == [3, 3, 3]


def test_publication_is_forwarded_in_one_direction_and_does_not_return(ring: Ring) -> None:
    for name, to in zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True):
        ring.link(name, to)
        ring.proxy(name, to)
    ring.publish(b"1")
    assert [[message.body for message in ring.held(name)] for name in NAMES] == [[b"1"]] * 3
    assert ring.kept() == [1, 1, 1]


def test_proxy_leads_over_a_route(ring: Ring) -> None:
    """A queue manager on the route forwards the publication, but does not publish it."""
    ring.link("EWR", "NYC", routes=["LAX"])
    ring.link("NYC", "LAX", transit=True)
    ring.proxy("EWR", "LAX")
    ring.publish(b"1", b"2")
    assert [len(ring.held(name)) for name in NAMES] == [2, 0, 2]


def test_publication_without_subscribers_is_not_kept(ring: Ring) -> None:
    for name in NAMES:
        ring.ask(name, m.Unsubscribe, ":s")
    ring.link("EWR", "NYC")
    ring.proxy("EWR", "NYC")
    assert len(ring.publish(b"1")) == 1
    assert ring.kept() == [0, 0, 0]


def test_proxy_forwards_only_what_it_selects(ring: Ring) -> None:
    """The selector of a proxy can use the topic, and the priority that the producer chose."""
    ring.link("EWR", "NYC")
    ring.proxy("EWR", "NYC", "topic = 'flights/JFK' AND subscription = ':p@NYC' AND priority > 4")
    ring.publish(b"1", priority=9)
    ring.publish(b"2", priority=1)
    assert [message.body for message in ring.held("NYC")] == [b"1"]


def test_publication_is_sent_once_whatever_the_number_of_proxies(ring: Ring) -> None:
    ring.link("EWR", "NYC")
    for proxy in ("p", "q", "r"):
        ring.proxy("EWR", "NYC", proxy=proxy)
    ring.publish(b"1", b"2")
    assert len(ring.held("NYC")) == 2
