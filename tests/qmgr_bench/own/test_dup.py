"""Tests that the check for duplicates makes no lookups, unlike the earlier search (A6, A7)."""

from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.dup import (
    BURST,
    BURSTS_MIN,
    DuplicateAtDepth,
    Duplicates,
    PutBurst,
    SearchedQueue,
    UidSender,
    dup,
    growth,
    search_us,
    trailer_of,
)
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m


def test_growth_lookups_and_duplicates_are_judged() -> None:
    series = [
        DuplicateAtDepth(10, 50, 8, 0.2, 50.2, 10, 900),
        DuplicateAtDepth(1_000_000, 51, 8, 9_000, 9_051, 1, 9),
    ]
    good = Duplicates(series, 1_800, 0, 40, 40, 1.02)
    assert [target.reached for target in good.targets()] == [True] * 3
    bad = Duplicates(series, 1_799, 1, 39, 40, 1.21)
    assert [target.reached for target in bad.targets()] == [False] * 3
    assert bad.targets()[1].what == "time of a put at depth 1,000,000, relative to depth 10"


def test_growth_is_that_within_each_turn() -> None:
    """The growth does not change if the disk becomes ten times slower between two turns."""
    times = {100: [PutBurst(3, 1)] * 3, 10: [PutBurst(us, 1) for us in (10, 100, 100)]}
    assert growth(times | {1_000: [PutBurst(us, 1) for us in (12, 120, 90)]}) == 1.2


def test_searched_queue_refuses_what_is_there_and_takes_what_comes_late() -> None:
    queue = SearchedQueue()
    queue.fill([trailer_of(1), trailer_of(3)])
    verdicts = [queue.put(trailer_of(tick)) for tick in (3, 2, 2, 4, 1)]
    assert verdicts == [False, True, False, True, False]


def test_search_takes_a_time() -> None:
    assert search_us(1_000) > 0


def _settle(wire: Wire, sender: UidSender, frame: bytes, count: int) -> None:
    """Sends *count* puts, and waits for the answers."""
    wire.sock.sendall(frame)
    while count:
        count -= sender.take(wire.sock.recv(65_536))


@pytest.mark.process
def test_daemon_and_search_give_the_same_verdicts(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, "Q")
        sender, searched = UidSender(wire, "Q"), SearchedQueue()
        for count in (3, 700):
            _settle(wire, sender, sender.put(count), count)
            before = sender.refused
            _settle(wire, sender, sender.again(), len(sender.last))
        fresh = [searched.put(record[-20:]) for record in sender.last]
        again = [searched.put(record[-20:]) for record in sender.last]
        assert (all(fresh), any(again)) == (True, False)
        assert sender.refused - before == len(sender.last) == 200
        row = host.ask(m.QueueShow, "Q")
        assert (row["fast"], row["slow"], row["duplicates"]) == (703, 0, 203)


@pytest.mark.process
def test_refusal_of_another_kind_is_reported(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, "Q", {"depth_max": 1})
        sender = UidSender(wire, "Q")
        wire.sock.sendall(sender.put(2))
        with pytest.raises(LoadFailed, match="a put was refused: "):
            sender.take(wire.sock.recv(65_536))


@pytest.mark.process
def test_fast_path_looks_nothing_up_at_any_depth(tmp_path: Path) -> None:
    found = dup(Setting(tmp_path, 0.01, 2, 0.001))
    assert [point.depth for point in found.series] == [1, 10, 100, 1_000]
    assert found.lookups == 0
    assert found.fast == sum(point.puts for point in found.series)
    assert found.fast >= 2 * BURSTS_MIN * BURST * len(found.series)
    assert found.duplicates_refused == found.duplicates_put == BURST * len(found.series)
    for point in found.series:
        assert point.comparisons == point.depth
        assert point.put_with_search_us == round(point.put_us + point.search_us, 2)
