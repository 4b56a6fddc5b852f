"""Tests of messages that a link cannot deliver (G8, G18), and of data sent with a record.

Both ends are production cores. The test of the same name in tests/qmgrd/core/sessions covers only
the receiving end.
"""

from typing import Any

import pytest

from qmgr_client.message import Message, Outgoing, encode
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.system import DEAD_LETTERS
from qmgrd.core.link.link import LinkState
from tests.sim.node import Node
from tests.sim.pair import EDGE, HUB, Pair, stored

NONE = f"NONE@{HUB}"
GIVES_UP: dict[str, Any] = {"link": {"deliver_retries": 2}}
LONG_ENOUGH_MS = 60_000


def pair_of(hub: dict[str, Any] | None = None) -> Pair:
    """Returns two queue managers, and a remote queue whose target does not exist."""
    pair = Pair(hub=hub)
    pair.at_edge.ask(lambda i: m.QueueCreate(i, NONE))
    return pair


def again(pair: Pair, node: Node, *, clean: bool) -> None:
    """Stops *node*, starts it again, and runs until no work is left."""
    if clean:
        node.stop()
    else:
        node.die()
    node.start()
    pair.advance(LONG_ENOUGH_MS)


def put(pair: Pair, queue: str, outgoing: Outgoing) -> None:
    pair.app.core.put(queue, encode(outgoing))
    pair.app.settle_down()


def get(pair: Pair, queue: str) -> list[Message]:
    """Leases messages at the hub."""
    found: list[Message] = pair.reader.request(m.Get, queue, 100, 0, 0, 1 << 30)
    return found


@pytest.mark.parametrize("clean", [True, False])
def test_message_for_a_missing_queue_waits_until_the_queue_exists_G8(clean: bool) -> None:
    pair = pair_of()
    lost, others = pair.put(1, NONE), pair.put(5)
    for node in (pair.edge, pair.hub, pair.edge):
        pair.advance(LONG_ENOUGH_MS)
        assert pair.link.state is LinkState.BLOCKED
        again(pair, node, clean=clean)
    assert "QUEUE_UNKNOWN: NYC reports: queue NONE does not exist here" in pair.link.error
    assert min(stored(pair.edge, pair.link.queue)) == 1
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "NONE"))
    pair.advance(LONG_ENOUGH_MS)
    assert (pair.reader.get("NONE"), pair.reader.get("FLIGHTS")) == (lost, others)
    assert pair.reader.get(DEAD_LETTERS) == []
    assert (pair.link.state, stored(pair.edge, pair.link.queue)) == (LinkState.UP, {})


def test_undeliverable_message_is_a_dead_letter_after_n_tries_and_others_continue_G18() -> None:
    pair = pair_of(GIVES_UP)
    before, lost, behind = pair.put(3), pair.put(2, NONE), pair.put(3)
    pair.advance(20_000 - 1)
    assert pair.link.state is LinkState.BLOCKED
    assert pair.reader.get(DEAD_LETTERS) == []
    pair.advance(1_000)
    assert (pair.link.state, pair.link.error) == (LinkState.UP, "")
    found = get(pair, DEAD_LETTERS)
    assert [message.body for message in found] == lost
    for dead in [message.dead for message in found]:
        assert dead is not None
        assert (dead.code, dead.queue, dead.manager) == (ErrorCode.QUEUE_UNKNOWN, "NONE", HUB)
        assert dead.failed == 2
        assert dead.text.startswith("queue NONE does not exist here")
    assert pair.reader.get("FLIGHTS") == before + behind
    assert stored(pair.edge, pair.link.queue) == {}


@pytest.mark.parametrize("clean", [True, False])
def test_message_without_any_place_stays_on_the_transmission_queue_G18(clean: bool) -> None:
    """The result does not depend on which end restarts."""
    pair = pair_of(GIVES_UP)
    pair.at_hub.ask(lambda i: m.QueueAlter(i, DEAD_LETTERS, {"put_inhibit": True}))
    lost = pair.put(1, NONE)
    pair.advance(LONG_ENOUGH_MS)
    for node in (pair.edge, pair.hub):
        assert pair.link.state is LinkState.BLOCKED
        assert "SYSTEM.DEAD.LETTERS cannot accept it either: PUT_INHIBITED" in pair.link.error
        assert list(stored(pair.edge, pair.link.queue)) == [1]
        again(pair, node, clean=clean)
    behind = pair.put(1)
    pair.at_hub.ask(lambda i: m.QueueAlter(i, DEAD_LETTERS, {"put_inhibit": False}))
    pair.advance(LONG_ENOUGH_MS)
    assert (pair.reader.get(DEAD_LETTERS), pair.reader.get("FLIGHTS")) == (lost, behind)
    assert (pair.link.state, stored(pair.edge, pair.link.queue)) == (LinkState.UP, {})


@pytest.mark.parametrize("crash", ["before", "after"])
def test_crash_of_the_hub_when_it_gives_up_doubles_and_loses_nothing_G18(crash: str) -> None:
    pair = pair_of(GIVES_UP)
    lost, others = pair.put(2, NONE), pair.put(3)
    pair.advance(20_000 - 1)
    pair.hub.store.crash = crash
    pair.advance(1_000)
    assert not pair.hub.up
    assert len(stored(pair.edge, pair.link.queue)) == 5
    pair.hub.start()
    pair.advance(LONG_ENOUGH_MS)
    assert (pair.reader.get(DEAD_LETTERS), pair.reader.get("FLIGHTS")) == (lost, others)
    assert stored(pair.edge, pair.link.queue) == {}


# -- data sent with a record


def test_remaining_time_counts_down_on_the_way() -> None:
    pair = Pair()
    pair.hub.die()
    put(pair, f"FLIGHTS@{HUB}", Outgoing(b"1", expiry_ms=60_000))
    pair.advance(20_000)
    pair.hub.start()
    pair.advance(35_000)
    (message,) = get(pair, "FLIGHTS")
    assert message.expiry_left_ms == 5_000
    pair.reader.core.settle(message, m.RELEASE)
    pair.advance(5_000)
    assert get(pair, "FLIGHTS") == []


def test_message_that_expires_on_the_way_does_not_arrive() -> None:
    pair = Pair()
    pair.hub.die()
    put(pair, f"FLIGHTS@{HUB}", Outgoing(b"1", expiry_ms=10_000))
    behind = pair.put(1)
    pair.advance(20_000)
    pair.hub.start()
    pair.advance(20_000)
    assert pair.reader.get("FLIGHTS") == behind
    assert stored(pair.edge, pair.link.queue) == {}


def test_message_that_expires_while_it_is_blocked_is_not_a_dead_letter() -> None:
    pair = pair_of({"link": {"deliver_retries": 5}})
    put(pair, NONE, Outgoing(b"1", expiry_ms=15_000))
    pair.advance(LONG_ENOUGH_MS)
    assert pair.reader.get(DEAD_LETTERS) == []
    assert (pair.link.state, stored(pair.edge, pair.link.queue)) == (LinkState.UP, {})


def test_rest_of_a_delay_is_waited_for_at_the_far_end() -> None:
    pair = Pair()
    pair.hub.die()
    put(pair, f"FLIGHTS@{HUB}", Outgoing(b"1", delay_ms=60_000))
    pair.advance(20_000)
    pair.hub.start()
    pair.advance(39_000)
    assert get(pair, "FLIGHTS") == []
    pair.advance(1_000)
    assert pair.reader.get("FLIGHTS") == [b"1"]


def test_dead_letters_go_to_another_queue_manager_with_their_header() -> None:
    pair = Pair()
    pair.at_edge.ask(
        lambda i: m.QueueCreate(
            i, "ORDERS", {"backout_threshold": 1, "backout_queue": f"FLIGHTS@{HUB}"}
        )
    )
    pair.app.put("ORDERS", [b"order"])
    (message,) = pair.app.request(m.Get, "ORDERS", 1, 0, 0, 1 << 30)
    pair.app.core.settle(message, m.RELEASE)
    pair.app.settle_down()
    pair.advance(1_000)
    (arrived,) = get(pair, "FLIGHTS")
    dead = arrived.dead
    assert dead is not None
    assert (arrived.body, arrived.uid) == (b"order", message.uid)
    assert (dead.code, dead.queue) == (ErrorCode.BACKOUT_THRESHOLD_REACHED, "ORDERS")
    assert (dead.manager, dead.failed) == (EDGE, 1)
    assert [attempt.client for attempt in arrived.attempts] == ["app"]
