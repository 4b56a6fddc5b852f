import shutil
from pathlib import Path

import pytest

from qmgr_bench.host import QMGRD
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.slow import DELAYS_MS, INFLIGHTS, WAITING, SlowOf, Slows, slow, slowed
from qmgr_bench.setting import Setting

ONE = SlowOf(5, 256, 20_000, 16_000, 1.25, 8.0, 12.0, 20.0, 9.0)


def test_going_on_during_a_flush_is_to_be_no_slower() -> None:
    verdicts = [target.reached for target in Slows([ONE, ONE]).targets()]
    assert verdicts == [True, True]
    assert ONE.name == "5 ms, 256 in flight"


def test_bars_have_both_daemons() -> None:
    _, bars = Slows([ONE]).bars()
    assert bars == [
        ("5 ms, 256 in flight", 20_000, True),
        ("5 ms, 256 in flight, waiting", 16_000, False),
    ]


def test_command_runs_the_daemon_under_strace() -> None:
    command = slowed(QMGRD, 20)
    assert command[0] == "strace"
    assert "inject=fdatasync:delay_exit=20000" in command
    assert tuple(command[-len(QMGRD) :]) == QMGRD
    assert WAITING[-1].endswith(QMGRD[-1])


def test_missing_strace_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LoadFailed, match="row SLOW needs strace"):
        slow(Setting(tmp_path, 0.2, 1, 0.05))


@pytest.mark.long
@pytest.mark.process
def test_both_daemons_are_measured_with_each_delay(tmp_path: Path) -> None:
    found = slow(Setting(tmp_path, 0.5, 1, 0.05)).series
    assert [(x.delay_ms, x.inflight) for x in found] == [
        (d, n) for d in DELAYS_MS for n in INFLIGHTS
    ]
    for x in found:
        assert x.p99_ms >= x.p50_ms >= x.delay_ms
        assert x.put_per_s > 0 < x.put_per_s_waiting
