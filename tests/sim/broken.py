"""Runs worlds that are wrong on purpose, until a seed breaks the law that it should.

The seed that finds a rare one is named where that is planted, and tried first: it saves half a
minute. A change of the core may move it; then the others find it, in their turn.
"""

from collections.abc import Iterator

import pytest

from qmgrd.core.turn import Turns
from tests.sim.ledger import Violated
from tests.sim.world import World

SEEDS = 150  # The rarest of them is seen in one of many.
STEPS = 2_000
Patch = pytest.MonkeyPatch


def broken_laws(turns_type: type[Turns] = Turns, first: int = 0) -> Iterator[str]:
    """Yield the law that each seed breaks, from seed *first* on."""
    for seed in range(first, first + SEEDS):
        try:
            World(seed, steps=STEPS, turns_type=turns_type).run()
        except Violated as violated:
            yield violated.law


def assert_caught(laws: set[str], turns_type: type[Turns] = Turns, *, first: int = 0) -> None:
    """Assert that some seed breaks one of *laws*, tried from *first* on until one does.

    Raises:
        AssertionError: none does.
    """
    found = []
    for law in broken_laws(turns_type, first):
        found.append(law)
        if law in laws:
            return
    raise AssertionError(f"none of {laws} was broken in {SEEDS} seeds, but {found}")
