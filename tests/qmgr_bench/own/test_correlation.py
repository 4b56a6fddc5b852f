from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.batches import BatchSender
from qmgr_bench.own.correlation import (
    BODIES,
    BURST,
    BURSTS_MIN,
    QUEUE,
    Asker,
    CorrelationAtDepth,
    Correlations,
    GetBurst,
    correlation,
    growth,
    id_of,
    record_of,
)
from qmgr_bench.own.traffic import pour
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgr_protocol.record import decode


def test_gets_are_to_be_flat() -> None:
    series = [
        CorrelationAtDepth(100, 60, 50, 40, 30, 900),
        CorrelationAtDepth(1_000_000, 70, 60, 45, 40, 900),
    ]
    flat, steep = Correlations(series, 1.2, 1.21).targets()
    assert (flat.reached, steep.reached) == (True, False)
    assert flat.what == "CPU time of a get at depth 1,000,000, relative to depth 100"
    assert steep.missing_percent == 0.8


def test_growth_is_that_within_each_turn() -> None:
    """The growth does not change if the machine becomes ten times slower between two turns."""
    times = {100: [GetBurst(9, us, 9, 1) for us in (10, 100, 100)], 500: [GetBurst(9, 1, 9, 1)] * 3}
    high = {1_000: [GetBurst(9, us, 9, 3) for us in (12, 120, 90)]}
    assert growth(times | high, "hit_cpu_us") == 1.2
    assert growth(times | high, "miss_cpu_us") == 3


def test_ids_differ_and_come_in_no_order() -> None:
    ids = [id_of(number) for number in range(1_000)]
    assert len(set(ids)) == 1_000
    assert ids != sorted(ids)


@pytest.mark.process
def test_burst_gets_what_is_there_and_leaves_it(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, QUEUE)
        pour(BatchSender(wire, QUEUE, record_of), 2 * BURST, "", lambda words: None)
        asker = Asker(host, wire, 2 * BURST)
        for _ in range(3):
            assert min(asker.burst()) > 0
        row = host.ask(m.QueueShow, QUEUE)
        assert (row["depth"], row["leased"], row["acked"]) == (2 * BURST, 0, 0)
        page = host.ask(m.Browse, QUEUE, None, 9, 1 << 20, "", id_of(7))["items"]
        found = [decode(item[m.DELIVERY_BYTES :]) for item in page]
        assert [(one.correlation_id, one.body) for one in found] == [(id_of(7), BODIES[7])]


@pytest.mark.process
def test_message_that_is_missing_is_reported(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, QUEUE)
        with pytest.raises(
            LoadFailed, match="received a different answer than the requested message: Ok"
        ):
            Asker(host, wire, BURST).burst()


@pytest.mark.process
def test_gets_are_measured_at_each_depth(tmp_path: Path) -> None:
    found = correlation(Setting(tmp_path, 0.01, 2, 0.0005))
    assert [point.depth for point in found.series] == [BURST, 500]
    for point in found.series:
        assert point.gets >= 2 * BURSTS_MIN * BURST
        assert min(point.get_us, point.get_cpu_us, point.miss_us, point.miss_cpu_us) > 0
    assert min(found.growth, found.growth_of_miss) > 0
