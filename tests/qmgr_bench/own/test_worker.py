from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.traffic import SIZE_BYTES, fill, pool_of
from qmgr_bench.own.worker import Done, Job, Worker
from qmgr_bench.qmgr import Wire
from qmgr_protocol import messages as m

pytestmark = pytest.mark.process
LONG_S = 60.0


def _work(host: Host, job: Job, pieces_max: int, seconds: float = LONG_S) -> Done:
    with Wire(host.address, "test") as wire:
        return Worker(wire, job, pool_of(SIZE_BYTES)).run(seconds, pieces_max)


def _ready(host: Host, depth: int) -> None:
    host.ask(m.QueueCreate, "FROM")
    host.ask(m.QueueCreate, "TO")
    fill(host, "FROM", depth, lambda words: None)


@pytest.mark.parametrize("in_units", [True, False], ids=["units", "plain"])
@pytest.mark.parametrize(("messages", "inflight"), [(1, 1), (10, 3)])
def test_pieces_move_what_they_say_and_nothing_is_held(
    in_units: bool, messages: int, inflight: int, tmp_path: Path
) -> None:
    with Host(tmp_path) as host:
        _ready(host, 100)
        done = _work(host, Job("TO", messages, inflight, in_units, "FROM"), 7)
        assert (done.pieces, done.commit.count) == (7, 7)
        assert done.seconds > 0
        row = host.ask(m.QueueShow, "FROM")
        assert (row["depth"], row["acked"], row["leased"]) == (100 - 7 * messages, 7 * messages, 0)
        assert host.depth("TO") == 7 * messages
        again = _work(host, Job("FROM", 7 * messages, 1, in_units, "TO"), 1)
        assert (again.pieces, host.depth("FROM"), host.depth("TO")) == (1, 100, 0)


@pytest.mark.parametrize("in_units", [True, False], ids=["units", "plain"])
def test_pieces_without_a_source_only_put(in_units: bool, tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.ask(m.QueueCreate, "TO")
        assert _work(host, Job("TO", 3, 2, in_units), 5).pieces == 5
        assert host.depth("TO") == 15
        by_time = _work(host, Job("TO", 3, 2, in_units), 1 << 62, 0.05)
        assert host.depth("TO") == 15 + 3 * by_time.pieces > 15


@pytest.mark.parametrize("in_units", [True, False], ids=["units", "plain"])
def test_refusal_is_reported(in_units: bool, tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.ask(m.QueueCreate, "TO", {"depth_max": 1})
        with pytest.raises(LoadFailed, match="a piece of work failed: "):
            _work(host, Job("TO", 2, 1, in_units), 1)
