from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.group_steps import (
    BURST,
    BURSTS_MIN,
    PART,
    QUEUE,
    WHOLE,
    StepBurst,
    Stepper,
    fill,
    group_id,
    growth,
    other_of,
    steps,
)
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgr_protocol.record import decode


def test_growth_is_that_within_each_turn() -> None:
    """The growth does not change if the machine becomes ten times slower between two turns."""
    times = {100: [StepBurst(us, 2, 1) for us in (10, 100, 100)], 500: [StepBurst(1, 1, 1)] * 3}
    high = {1_000: [StepBurst(us, 3, 4) for us in (12, 120, 90)]}
    assert growth(times | high, "next_cpu_us") == 1.2
    assert growth(times | high, "pinned_cpu_us") == 1.5
    assert growth(times | high, "whole_cpu_us") == 4


def test_half_of_the_others_are_in_groups_without_an_end() -> None:
    groups = [decode(other_of(number)).group for number in range(4 * PART)]
    assert groups[::2] == [None] * 2 * PART
    members = [group for group in groups if group]
    assert {group[0] for group in members} == {group_id("part", 0), group_id("part", 1)}
    assert [group[1:] for group in members] == [(at + 1, False) for at in range(PART)] * 2


@pytest.mark.process
def test_burst_steps_through_groups_and_leaves_them(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        fill(host, 2 * PART, Setting(tmp_path, 0.1, 1))
        stepper = Stepper(host, wire)
        for _ in range(3):
            assert min(stepper.burst()) > 0
        assert stepper.search() > 0
        row = host.ask(m.QueueShow, QUEUE)
        messages = 2 * PART + BURST + 1 + WHOLE * BURST
        assert (row["depth"], row["leased"], row["acked"]) == (messages, 0, 0)
        assert row["delivered"] == 3 * (2 * (BURST + 1) + BURST) + 1
        assert all(not one["holder"] for one in host.ask(m.GroupList, QUEUE)["groups"])


@pytest.mark.process
def test_member_that_is_missing_is_reported(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, QUEUE)
        with pytest.raises(
            LoadFailed, match="received a different answer than the requested message: Ok"
        ):
            Stepper(host, wire).burst()


@pytest.mark.process
def test_steps_are_measured_at_each_depth(tmp_path: Path) -> None:
    found = steps(Setting(tmp_path, 0.01, 2, 0.0005))
    assert [point.depth for point in found.series] == [BURST, 500]
    for point in found.series:
        assert point.steps >= 2 * BURSTS_MIN * BURST
        assert min(point.next_cpu_us, point.pinned_cpu_us, point.whole_cpu_us) > 0
        assert point.search_cpu_us > 0
    assert min(found[1:]) > 0
