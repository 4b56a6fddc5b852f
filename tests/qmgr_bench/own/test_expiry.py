from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own import expiry as module
from qmgr_bench.own.expiry import OTHER, RATE_PER_S, Expired, OtherTraffic, expiry, work
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m

EXPIRED = Expired(1_000_000, 50_000, 49, 12, 1, 12, 2, 13, 1, 13, 60_000)


def test_longest_turn_is_judged() -> None:
    (target,) = EXPIRED.targets()
    assert (target.what, target.reached) == ("longest turn while 1,000,000 messages expire", True)


@pytest.mark.process
def test_others_work_at_an_even_pace(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.ask(m.QueueCreate, OTHER)
        others = OtherTraffic()
        work(host, 0.1, others)
        work(host, 0.1, others)
        row = host.ask(m.QueueShow, OTHER)
        assert (row["depth"], row["leased"]) == (0, 0)
        assert row["acked"] == others.put.count == others.got.count
        assert 0.1 * RATE_PER_S <= row["acked"] <= 0.2 * RATE_PER_S + 2
        assert 0 < others.put_ms(50) <= others.put_ms(99)


@pytest.mark.process
def test_all_expire_and_others_are_seen_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPARE_S", 1.0)
    words: list[str] = []
    found = expiry(Setting(tmp_path, 0.2, 1, 0.002, words.append))
    assert found.messages == 2_000
    assert "EXPIRY: filling ENDING: 2,000 of 2,000, " in " ".join(words)
    assert min(found.swept_per_s, found.fill_per_s, found.turn_longest_ms) > 0
    assert found.put_p99_ratio == round(found.put_p99_ms / found.put_p99_ms_else, 4)
    assert found.get_p99_ratio == round(found.get_p99_ms / found.get_p99_ms_else, 4)


@pytest.mark.process
def test_moment_that_came_too_soon_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPARE_S", -100.0)
    with pytest.raises(LoadFailed, match="20 messages expired before the start of the measurement"):
        expiry(Setting(tmp_path, 0.02, 1, 0.00002))
