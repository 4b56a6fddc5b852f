from pathlib import Path

import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.own import transfer_peers
from qmgr_bench.own.transfer_peers import Peers
from qmgr_bench.pair import Pull
from qmgr_bench.setting import Setting


class Mover:
    """A mover with a constant rate. The disk is twice as fast in the second round."""

    about = "its way"

    def __init__(self, name: str, rate: float, fails_in: int = 99) -> None:
        self.name, self.rate, self.fails_in = name, rate, fails_in
        self.moved: list[tuple[int, int]] = []

    def version(self) -> str | None:
        return None if self.name == "absent" else f"{self.name} 1"

    def move(self, directory: Path, messages: int, size_bytes: int) -> Pull:
        assert directory.is_dir()
        self.moved.append((messages, size_bytes))
        if len(self.moved) > self.fails_in:
            raise LoadFailed("it does not")
        return Pull(self.rate * (1 + (len(self.moved) > 2)), 20, 30)


def test_peers_are_held_against_ours_of_the_same_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    slow, absent, failing = Mover("slow", 100), Mover("absent", 1), Mover("failing", 100, 1)
    monkeypatch.setattr(transfer_peers, "MOVERS", (slow, absent, failing, Mover("unwanted", 1)))
    names = ("slow", "absent", "failing")
    peers = Peers(Setting(tmp_path, 1, 2, 0.01, note=notes.append, peers=names), (256, 1_024))
    peers.round(0)
    peers.round(1)
    ours = [Pull(300, 5, 5), Pull(600, 5, 5)]
    small, large = peers.beside({256: ours, 1_024: ours})
    assert slow.moved == [(200, 256), (200, 1_024)] * 2
    assert (small.peer, small.version, small.way) == ("slow", "slow 1", "its way")
    assert (small.messages_per_s, small.cpu_us) == (150, 50)
    assert (small.ratio, small.cpu_ratio, large.size_bytes) == (3, 5, 1_024)
    assert [target.reached for target in small.targets()] == [True, True]
    assert "256 B" in small.targets()[0].what
    assert "1 KiB" in large.targets()[0].what
    assert notes == ["failing failed in TRANSFER and is skipped: it does not"]
