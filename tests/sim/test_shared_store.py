"""E31: the worlds of the simulator are the same if members share a journal on a server."""

from pathlib import Path

import pytest

from tests.qmgrd.core import harness
from tests.qmgrd.core.machine import run as machine_run
from tests.qmgrd.core.machine import seat
from tests.sim import dumps, node
from tests.sim.run import run_seed
from tests.sim.shared_store import SharedStore
from tests.test_conversations import HERE, PLAYERS, replay

CONVERSATIONS = sorted(
    path for kind in ("group", "queue", "topic") for path in HERE.glob(f"{kind}/*.txt")
)
WORLDS, MATRIX = [4, 9, 12, 93], [3]


def test_worlds_and_the_crash_matrix_leave_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start is the takeover of another member, often after a lost answer."""
    expected = set(dumps.FILE.read_text().splitlines())
    monkeypatch.setattr(node, "WatchedStore", SharedStore)
    found = {dumps.world_line(seed) for seed in WORLDS}
    found |= {dumps.matrix_line(row, seed) for row in range(len(dumps.ROWS)) for seed in MATRIX}
    assert found - expected == set()


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("start", range(0, 200, 20))
def test_many_worlds_keep_their_laws(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    monkeypatch.setattr(node, "WatchedStore", SharedStore)
    failures = [run_seed(seed) for seed in range(start, start + 20)]
    assert [result for result in failures if result.failure] == []


def test_world_finds_a_log_without_the_last_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: a takeover that does not read the log to its end."""
    reopen = SharedStore.reopen

    def reopen_early(self: SharedStore) -> None:
        lost = self._server.records[-1:]
        del self._server.records[-1:]
        reopen(self)
        self._server.records[len(self._server.records) :] = lost[1:]

    monkeypatch.setattr(SharedStore, "reopen", reopen_early)
    monkeypatch.setattr(node, "WatchedStore", SharedStore)
    assert any(run_seed(seed).failure for seed in range(5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 31))]
)
def test_queues_match_the_model(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(seat, "WatchedStore", SharedStore)
    assert not machine_run.run_seed(seed, shrink=False)


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_conversations_have_the_same_answers(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(harness, "MemoryStore", lambda: SharedStore(lambda changes: None))
    text = path.read_text()
    assert replay(text, PLAYERS[path.parent.name]()) == text
