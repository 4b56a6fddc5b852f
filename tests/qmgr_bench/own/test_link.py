from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own import link as module
from qmgr_bench.own.link import QUEUE, REMOTE, TO, Linked, link, share, transfer
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m


def test_link_is_held_against_a_quarter_of_puts_and_gets() -> None:
    assert share(50_000, 90_000, 110_000) == 1
    assert share(25_000, 90_000, 110_000) == 0.5
    linked = Linked(200_000, 25_000, 10, 8, 90_000, 110_000, 0.5, 20_000, 16, 16, 5, 9)
    (target,) = linked.targets()
    assert target.missing_percent == 50


@pytest.mark.process
def test_backlog_and_stream_go_over_the_link(tmp_path: Path) -> None:
    found = link(Setting(tmp_path, 0.1, 2, 0.001))
    assert found.messages == 200
    assert min(found.put_per_s_w1b, found.get_per_s_w3) > 100
    assert min(found.per_s, found.live_per_s, found.ratio) > 0
    assert 0 < found.live_p50_ms <= found.live_p99_ms


@pytest.mark.process
def test_link_that_does_not_go_on_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENCE_MAX_S", 0.2)
    with Host(tmp_path / "from", "FROM") as source, Host(tmp_path / "to", "OTHER") as to:
        to.ask(m.QueueCreate, QUEUE)
        to.ask(m.LinkAllow, "FROM")
        source.ask(m.LinkCreate, TO, {"addresses": [to.address], "stopped": True})
        source.ask(m.QueueCreate, REMOTE)
        with pytest.raises(
            LoadFailed, match="3 messages did not arrive over the link: its state is "
        ):
            transfer(source, to, 3, lambda words: None)
