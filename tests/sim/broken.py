"""Runs worlds that are wrong on purpose, until a seed breaks the law that it should."""

from collections.abc import Iterator

import pytest

from qmgrd.core.turn import Turns
from tests.sim.ledger import Violated
from tests.sim.world import World

SEEDS = 150  # The rarest of them is seen in one of many.
STEPS = 2_000
Patch = pytest.MonkeyPatch


def broken_laws(turns_type: type[Turns] = Turns) -> Iterator[str]:
    """Yield the law that each seed breaks."""
    for seed in range(SEEDS):
        try:
            World(seed, steps=STEPS, turns_type=turns_type).run()
        except Violated as violated:
            yield violated.law


def assert_caught(laws: set[str], turns_type: type[Turns] = Turns) -> None:
    """Assert that some seed breaks one of *laws*, stopping at the first."""
    found = []
    for law in broken_laws(turns_type):
        found.append(law)
        if law in laws:
            return
    raise AssertionError(f"none of {laws} was broken in {SEEDS} seeds, but {found}")
