from collections.abc import Sequence
from pathlib import Path

import pytest

from qmgr_bench.load import LoadFailed, Receiver, Sender
from qmgr_bench.own import fan_out as fans
from qmgr_bench.own.fan_out import EACH, SHARED, fan_out, publications_of
from qmgr_bench.setting import Setting


class Absent:
    """A peer that is not installed, or that does not start."""

    about = "its way"
    subscriptions_max = 5

    def __init__(self, name: str, version: str | None) -> None:
        self.name, self._version = name, version
        self.started: list[int] = []
        self.stops = 0

    def version(self) -> str | None:
        return self._version

    def start(self, directory: Path, subscriptions: int) -> None:
        self.started.append(subscriptions)
        raise LoadFailed("it does not start")

    def sender(self, pool: Sequence[bytes]) -> Sender:
        raise NotImplementedError

    def receivers(self, prefetch: int, size_bytes: int) -> list[Receiver]:
        raise NotImplementedError

    def cpu_s(self) -> float:
        return 0.0

    def stop(self) -> None:
        self.stops += 1


def test_runs_last_about_as_long_whatever_the_subscriptions() -> None:
    setting = Setting(Path(), 0.5, 1)
    assert [publications_of(count, setting) for count in (1, 100, 10_000)] == [20_000, 200, 20]


@pytest.mark.long
@pytest.mark.process
def test_fan_out_is_measured_over_one_connection_and_over_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    absent, failing, other = Absent("absent", None), Absent("failing", "1"), Absent("other", "1")
    monkeypatch.setattr(fans, "SUBSCRIPTIONS", (1, 4, 8))
    monkeypatch.setattr(fans, "FANS", (absent, failing, other))
    setting = Setting(tmp_path, 0.05, 1, note=notes.append, peers=("absent", "failing"))
    found = fan_out(setting)
    assert {one.server for one in found} == {"qmgrd"}
    assert sorted((one.subscriptions, one.connections) for one in found) == [
        (count, how) for count in (1, 4, 8) for how in sorted((EACH, SHARED))
    ]
    assert all(min(one.deliveries_per_s, one.server_cpu_us) > 0 for one in found)
    assert all(one.ratio == 1 for one in found if one.connections == EACH)
    assert (absent.started, failing.started, other.started) == ([], [1], [])
    assert failing.stops == 1
    assert notes == ["failing failed in TOPIC and is skipped: it does not start"]
    assert list(tmp_path.iterdir()) == []
