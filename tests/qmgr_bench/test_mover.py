from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from qmgr_bench import mover
from qmgr_bench.load import LoadFailed
from qmgr_bench.mover import MOVERS, timed
from qmgr_bench.pair import Pull


class Server:
    """A server that uses *seconds* of processor time between two checks."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.looks = seconds, 0

    def cpu_s(self) -> float:
        self.looks += 1
        return self.looks * self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by half a second with each wait."""
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += 0.5

    monkeypatch.setattr("time.sleep", wait)
    monkeypatch.setattr("time.monotonic", lambda: now[0])


def counts(*values: int) -> Iterator[int]:
    return chain(values, repeat(values[-1]))


@pytest.mark.usefixtures("clock")
def test_clock_runs_from_the_first_arrival_to_the_last() -> None:
    begun, seen = [], counts(0, 0, 0, 10, 60, 110)
    servers: Any = (Server(0.001), Server(0.002))
    found = timed(lambda: begun.append(1), lambda: next(seen), 110, servers)
    assert found == Pull(100, 9.09, 18.18)
    assert begun == [1]


@pytest.mark.usefixtures("clock")
def test_backlog_that_comes_at_once_has_no_rate() -> None:
    servers: Any = (Server(0), Server(0))
    seen = counts(3, 5)
    with pytest.raises(LoadFailed, match="3 of 5 messages arrived together"):
        timed(lambda: None, lambda: next(seen), 5, servers)


@pytest.mark.usefixtures("clock")
def test_missing_message_is_a_failure() -> None:
    seen = counts(0, 10)
    servers: Any = (Server(0), Server(0))
    with pytest.raises(LoadFailed, match="40 of 50 messages did not arrive"):
        timed(lambda: None, lambda: next(seen), 50, servers)


def test_shovel_gets_both_ends() -> None:
    said = []

    class To:
        address = "127.0.0.1:2"

        def control(self, *words: str) -> None:
            said.append(words)

    to: Any = To()
    mover._shovel("127.0.0.1:1", to)
    ((*words, definition),) = said
    assert words == ["set_parameter", "shovel", "bench"]
    assert '"src-uri":"amqp://127.0.0.1:1"' in definition
    assert '"dest-uri":"amqp://127.0.0.1:2"' in definition


@pytest.mark.process
@pytest.mark.parametrize("one", MOVERS, ids=lambda one: one.name)
def test_backlog_is_moved(one: mover.Mover, tmp_path: Path) -> None:
    """The test is skipped if the peer is not installed."""
    if one.version() is None:
        pytest.skip("the peer is not installed")
    found = one.move(tmp_path, 5_000, 256)
    assert found.messages_per_second > 0
    assert found.cpu_us >= 0
