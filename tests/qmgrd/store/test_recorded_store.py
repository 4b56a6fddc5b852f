"""Tests of both stores with records: the size of checkpoints."""

from pathlib import Path

import pytest

from qmgrd.store import journal_store, recorded_store
from tests.qmgrd.store.test_journal_store import opened, put


class Clock:
    """A clock on which each period between two looks takes *tick_s*."""

    def __init__(self, tick_s: float) -> None:
        self.tick_s = tick_s
        self.now_s = 0.0

    def perf_counter(self) -> float:
        self.now_s += self.tick_s
        return self.now_s


@pytest.mark.parametrize(
    ("flushes", "tick_s", "limit_bytes"),
    [
        (0, 2 * recorded_store.CHECKPOINT_S, recorded_store.LIMIT_LEAST_BYTES),
        (0, recorded_store.CHECKPOINT_S / 2, 16 << 20),
        (4, 2 * recorded_store.CHECKPOINT_S, 16 << 20),  # a slow disk, where a record takes as long
    ],
)
def test_checkpoints_are_as_long_as_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushes: int, tick_s: float, limit_bytes: int
) -> None:
    monkeypatch.setattr(recorded_store, "FLUSHES", flushes)
    monkeypatch.setattr(journal_store, "time", Clock(tick_s))
    store = opened(tmp_path / "large", 32 << 20)
    store._limit_bytes = 1 << 20
    for _ in range(150):
        put(store, a=bytes(200_000))
    assert store._limit_bytes == pytest.approx(limit_bytes, rel=1e-4)
    store.close()
