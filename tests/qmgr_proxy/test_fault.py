"""Tests of the damage to chunks, with fixed random draws and a list as the pipe."""

import asyncio
from collections.abc import Iterable
from random import Random

import pytest

from qmgr_proxy import fault as proxy_fault
from qmgr_proxy.fault import Faults, FaultyInlet

FAULTS = Faults(lose_percent=10, double_percent=10, reorder_percent=10)
LOSE, DOUBLE, REORDER, PASS = 0.05, 0.15, 0.25, 0.9


class Chance(Random):
    """A random generator that returns prepared draws."""

    def __init__(self, draws: Iterable[float]) -> None:
        super().__init__()
        self._draws = iter(draws)

    def random(self) -> float:
        return next(self._draws)


class Sink:
    """An inlet that records the data that passes through."""

    def __init__(self) -> None:
        self.passed: list[bytes] = []
        self.has_ended = False

    def take(self, data: bytes) -> None:
        self.passed.append(data)

    def end(self) -> None:
        self.has_ended = True


def inlet(*draws: float) -> tuple[FaultyInlet, Sink, list[tuple[str, int]]]:
    sink, told = Sink(), list[tuple[str, int]]()
    made = FaultyInlet(FAULTS, Chance(draws), sink, lambda what, size: told.append((what, size)))
    return made, sink, told


@pytest.mark.parametrize(
    ("draws", "passed", "told"),
    [
        ([PASS, PASS], [b"a", b"bb"], []),
        ([LOSE, PASS], [b"bb"], [("lost", 1)]),
        ([PASS, DOUBLE], [b"a", b"bbbb"], [("doubled", 2)]),
        ([REORDER, PASS], [b"bb", b"a"], [("reordered", 1)]),
        ([REORDER, REORDER], [b"bb", b"a"], [("reordered", 1)]),
        ([REORDER, LOSE], [b"a"], [("lost", 2)]),
        ([REORDER, DOUBLE], [b"bbbb", b"a"], [("doubled", 2)]),
    ],
)
async def test_draw_decides_the_fate_of_a_chunk(
    draws: list[float], passed: list[bytes], told: list[tuple[str, int]]
) -> None:
    made, sink, said = inlet(*draws)
    made.take(b"a")
    made.take(b"bb")
    made.end()
    assert (sink.passed, said, sink.has_ended) == (passed, told, True)


async def test_held_chunk_comes_before_the_end() -> None:
    made, sink, told = inlet(REORDER)
    made.take(b"a")
    assert (sink.passed, sink.has_ended) == ([], False)
    made.end()
    assert (sink.passed, sink.has_ended, told) == ([b"a"], True, [])


async def test_held_chunk_that_nothing_follows_passes_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_fault, "HOLD_S", 0.001)
    made, sink, told = inlet(REORDER, PASS)
    made.take(b"a")
    async with asyncio.timeout(20):
        while not sink.passed:
            await asyncio.sleep(0.001)
    made.take(b"bb")
    assert (sink.passed, told) == ([b"a", b"bb"], [])


@pytest.mark.parametrize("percents", [(-1, 0, 0), (50, 40, 11)])
def test_shares_that_cannot_be_are_refused(percents: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="are negative, or their sum exceeds 100"):
        Faults(*percents)
