"""Tests that the first seeds of nets break no invariant, and that planted bugs break one."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.catalogue import route
from qmgrd.core.link import continuation as link_continuation
from qmgrd.core.link.inbox import LinkInbox
from qmgrd.core.link.pump import LinkPump
from qmgrd.core.sessions.link_streams import LinkStreams
from tests.sim.ledger import Violated
from tests.sim.net import Net

SEEDS = 80  # Only a few of these seeds find the rarest bug.


@pytest.mark.parametrize("seed", range(12))
def test_net_breaks_no_law(seed: int) -> None:
    """B16, B21, B22, G8, G10: The runs use several hops, and restore stores to older states."""
    Net(seed).run()


def test_same_seed_leaves_the_same_bytes() -> None:
    first, second = Net(5), Net(5)
    first.run()
    second.run()
    assert first.digest() == second.digest()


def test_nets_of_all_kinds_occur() -> None:
    nets = [Net(seed) for seed in range(20)]
    assert {len(net.nodes) for net in nets} == {2, 3, 4, 5}
    assert max(len(net.way(a, b)) for net in nets for a in net.nodes for b in net.nodes) > 3
    assert {bool(net.account.circle) for net in nets} == {True, False}
    assert {bool(net.account.fetched) for net in nets} == {True, False}


def assert_found(*laws: str, first: int = 0) -> None:
    """Asserts that some seed from *first* on breaks one of *laws*.

    Raises:
        AssertionError: No seed breaks any of these invariants.
    """
    found = []
    for seed in range(first, first + SEEDS):
        try:
            Net(seed).run()
        except Violated as violated:
            found.append(violated.law)
            if violated.law in laws:
                return
    raise AssertionError(f"none of {laws} was broken in {SEEDS} seeds, but {found}")


def test_restored_receiver_that_reports_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_at = LinkInbox.begin_at

    def silent(self: LinkInbox, lowest_id: int) -> int:
        begin_at(self, lowest_id)
        return 0

    monkeypatch.setattr(LinkInbox, "begin_at", silent)
    assert_found("losses_are_told")


@pytest.mark.long
def test_restored_sender_that_continues_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new messages have ids that the peer knows from other messages."""
    monkeypatch.setattr(link_continuation, "check", lambda *arguments: None)
    assert_found("deleted_is_held_by_the_receiver")


def test_endless_circle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(put: m.Put, peer: str, own: str) -> Any:
        yield put, None

    monkeypatch.setattr(route, "forwarded", on)
    assert_found("nothing_is_doubled")


def test_receiver_that_stores_no_window_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    end_turn = LinkStreams.end_turn

    def forgetful(self: LinkStreams) -> None:
        self._dirty.clear()
        end_turn(self)

    monkeypatch.setattr(LinkStreams, "end_turn", forgetful)
    assert_found("nothing_is_doubled")


def test_sender_that_deletes_sent_messages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = LinkPump.run

    def eager(self: LinkPump) -> None:
        run(self)
        self._link.outbox.commit(self._link.outbox.sent_id)

    monkeypatch.setattr(LinkPump, "run", eager)
    # A message that is deleted in the turn of its put was never seen as stored.
    assert_found("deleted_is_held_by_the_receiver", "acked_is_durable")


@pytest.mark.long
def test_ordered_link_out_of_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkInbox, "is_ordered", property(lambda self: False, lambda self, x: None))
    assert_found("order_per_producer", first=378)
