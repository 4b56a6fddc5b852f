"""Tests of nets with guarded queue managers, and of the law against planted bugs."""

from typing import Any

import pytest

from qmgrd.core.access.users import Users
from qmgrd.core.puts import origin_right
from qmgrd.core.requests.rights import Guard
from tests.sim.broken import Patch
from tests.sim.guarded_net import GuardedNet
from tests.sim.ledger import Violated

SEEDS = 24
STEPS = 600
REFUSING = 3  # a seed in which many messages become dead letters
FORWARDING = 4  # a seed with more than two queue managers


@pytest.mark.parametrize("seed", range(6))
def test_guarded_net_loses_doubles_and_lets_in_nothing(seed: int) -> None:
    """Rights of queue managers change, links and stores fail: each message arrives once."""
    net = GuardedNet(seed)
    net.run()
    assert net.watch.happened["guarded puts"] > 0
    if seed == REFUSING:
        assert net.watch.happened["refused to users"] > 0


def test_messages_are_forwarded_with_rights() -> None:
    net = GuardedNet(FORWARDING, steps=STEPS)
    net.run()
    assert net.watch.happened["guarded forwards"] > 0


def test_message_that_a_restored_store_lost_is_checked_again() -> None:
    net = GuardedNet(FORWARDING, steps=STEPS)
    before = {name: net.account.save(node) for name, node in net.nodes.items()}
    net.run()
    for name, node in net.nodes.items():
        seen = net._law._seen[name]
        assert seen
        net.saved[name] = before[name]
        net.put_back(node)
        assert not seen & net._law._seen[name]


def assert_caught(steps: int = STEPS) -> None:
    """Asserts that one of the first seeds breaks the law let_in_nothing."""
    found = []
    for seed in range(SEEDS):
        try:
            GuardedNet(seed, steps=steps).run()
        except Violated as violated:
            found.append(violated.law)
            if violated.law == "let_in_nothing":
                return
    raise AssertionError(f"let_in_nothing was not broken in {SEEDS} seeds, but {found}")


@pytest.mark.long
def test_unchecked_origin_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(origin_right, "refusal", lambda check, batch, sender="": None)
    assert_caught()


def test_unchecked_put_of_a_link_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Guard, "check_right", lambda *arguments: None)
    assert_caught()


def test_unchecked_messages_of_a_link_that_fetches_are_found(monkeypatch: Patch) -> None:
    def nobody(self: Any, manager: str) -> None:
        return None

    monkeypatch.setattr(Users, "of_manager", nobody)
    assert_caught(steps=2_000)
