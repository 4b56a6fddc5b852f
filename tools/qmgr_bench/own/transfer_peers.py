"""TRANSFER with peers: RabbitMQ's shovel and a NATS source."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from qmgr_bench.load import LoadFailed
from qmgr_bench.median import median, median_ratio
from qmgr_bench.mover import MOVERS, Mover
from qmgr_bench.pair import Pull
from qmgr_bench.setting import Setting
from qmgr_bench.target import Target, at_least

MESSAGES = 20_000  # Peers are slower, so this number is enough to determine a rate.


@dataclass(frozen=True, slots=True)
class PeerOver:
    """The medians of a peer. Ratios compare our link with the peer within the rounds."""

    peer: str
    version: str
    way: str
    size_bytes: int
    messages: int
    messages_per_s: float
    from_cpu_us: float  # processor time of the sending server, per message
    to_cpu_us: float
    cpu_us: float  # processor time of both servers, per message
    ratio: float  # our messages per second, relative to the peer's
    cpu_ratio: float  # the peer's processor time, relative to ours

    def targets(self) -> list[Target]:
        """Returns the targets for the comparison."""
        size = "256 B" if self.size_bytes == 256 else "1 KiB"
        return [
            at_least(f"transfer rate, {size}, relative to {self.peer}", self.ratio, 1.0),
            at_least(
                f"CPU time of {self.peer}'s servers, {size}, relative to our daemons",
                self.cpu_ratio,
                1.0,
            ),
        ]


class Peers:
    """The installed peers. A peer that fails is reported, and later rounds skip it."""

    def __init__(self, setting: Setting, sizes: Sequence[int]) -> None:
        self._setting = setting
        self._sizes = sizes
        self._pulls: dict[tuple[str, int], list[Pull]] = {}
        self._movers: dict[str, tuple[Mover, str]] = {}
        for mover in MOVERS:
            version = mover.version() if mover.name in setting.peers else None
            if version is not None:
                self._movers[mover.name] = mover, version

    def round(self, number: int) -> None:
        """Moves a backlog of each size with each peer."""
        setting = self._setting
        for name, (mover, _) in list(self._movers.items()):
            for size in self._sizes:
                setting.say(f"TRANSFER: round {number + 1} of {setting.rounds}, {name}")
                try:
                    with TemporaryDirectory(prefix="mover-", dir=setting.directory) as made:
                        pull = mover.move(Path(made), setting.scaled(MESSAGES), size)
                except (LoadFailed, OSError) as error:
                    setting.note(f"{name} failed in TRANSFER and is skipped: {error}")
                    del self._movers[name]
                    break
                self._pulls.setdefault((name, size), []).append(pull)

    def beside(self, ours: dict[int, Sequence[Pull]]) -> list[PeerOver]:
        """Returns the results, compared with *ours* by size in the same rounds."""
        return [
            _over(*self._movers[name], size, found, ours[size], self._setting.scaled(MESSAGES))
            for (name, size), found in self._pulls.items()
            if name in self._movers
        ]


def _over(
    mover: Mover,
    version: str,
    size: int,
    found: Sequence[Pull],
    ours: Sequence[Pull],
    messages: int,
) -> PeerOver:
    rates = [one.messages_per_second for one in found]
    return PeerOver(
        mover.name,
        version,
        mover.about,
        size,
        messages,
        median(rates),
        median([one.from_cpu_us for one in found]),
        median([one.to_cpu_us for one in found]),
        median([one.cpu_us for one in found]),
        median_ratio([one.messages_per_second for one in ours], rates),
        median_ratio([one.cpu_us for one in found], [one.cpu_us for one in ours]),
    )
