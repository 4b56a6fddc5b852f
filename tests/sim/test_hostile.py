"""Tests that hostile clients do not affect others, and find bugs that others do not trigger."""

import pytest

from qmgrd.core.catalogue import system
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.queue import settle
from qmgrd.core.queue.queue import Queue
from tests.process.hostile.planted import ack_any
from tests.sim.broken import Patch
from tests.sim.ledger import Violated
from tests.sim.run import BESIEGED_EVERY, world_of
from tests.sim.world import World

SEEDS = 20
STEPS = 1_500


def law(seed: int, *, is_besieged: bool) -> str:
    """Returns the invariant that a seed breaks, or ""."""
    world = World(seed, steps=STEPS)
    world.is_besieged = is_besieged
    try:
        world.run()
    except Violated as violated:
        return violated.law
    return ""


def assert_found_by_hostile_clients_alone(*laws: str, first: int) -> None:
    """Asserts that a seed breaks one of *laws* with hostile clients, and none without them.

    Args:
        first: The first seed to try, which found the bug when the test was written.
    """
    for seed in range(first, first + SEEDS):
        if law(seed, is_besieged=True) in laws and not law(seed, is_besieged=False):
            return
    raise AssertionError(f"by hostile clients alone none of {laws} is broken in {SEEDS} seeds")


def test_every_third_seed_has_hostile_clients() -> None:
    assert [world_of(seed).is_besieged for seed in range(BESIEGED_EVERY)] == [False, False, True]


@pytest.mark.parametrize("seed", [2, 14, 11])  # a world, a world of topics, and a net
def test_laws_hold_next_to_hostile_clients(seed: int) -> None:
    world = world_of(seed)
    world.run()
    assert world.watch.happened["hostile frames"] > 50


@pytest.mark.long
def test_puts_on_system_queues_are_found_by_hostile_clients_alone(monkeypatch: Patch) -> None:
    destination = Catalogue.destination

    def to_anywhere(self: Catalogue, name: str) -> tuple[Queue, str]:
        return (self.system(name), "") if name == system.DEAD_LETTERS else destination(self, name)

    monkeypatch.setattr(Catalogue, "destination", to_anywhere)
    assert_found_by_hostile_clients_alone("delivered_was_accepted", first=10)


@pytest.mark.long
def test_ack_by_another_client_is_found_by_hostile_clients_alone(monkeypatch: Patch) -> None:
    monkeypatch.setattr(settle, "ack_all", ack_any)
    assert_found_by_hostile_clients_alone(
        "removed_was_acknowledged", "settled_by_its_holder", first=33
    )
