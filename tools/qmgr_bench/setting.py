"""The setting of rows: directory, duration, number of rounds, and progress reports."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qmgr_bench.load import LoadFailed
from qmgr_tools.cli import humanize as humanize

BYTES_A_MESSAGE = 560  # in the store, of 256 B each: the size after a fill, with a margin
BYTES_SPARE = 2 << 30  # for the rounds, and for the daemon's free space


def _nobody(words: str) -> None:
    del words


@dataclass(frozen=True, slots=True)
class Setting:
    """How rows are run."""

    directory: Path  # on the disk to measure
    seconds: float  # of each measurement
    rounds: int
    scale: float = 1.0  # of all depths: targets are judged at 1
    say: Callable[[str], None] = _nobody  # receives the progress
    note: Callable[[str], None] = _nobody  # receives lines that stay visible
    peers: tuple[str, ...] = ()  # the peers that are measured with rows of our own

    def scaled(self, messages: int) -> int:
        """Returns a number of *messages* to scale, at least one."""
        return max(round(messages * self.scale), 1)

    def check_disk(self, messages: int) -> None:
        """Reports how much of the disk *messages* take.

        Raises:
            LoadFailed: that is more than is free.
        """
        needed, free = messages * BYTES_A_MESSAGE, shutil.disk_usage(self.directory).free
        words = f"{messages:,} messages need about {humanize.size(needed)} of the disk"
        if needed + BYTES_SPARE > free:
            raise LoadFailed(
                f"{words}, and {humanize.size(BYTES_SPARE)} to work in; "
                f"{humanize.size(free)} are free: use another --dir, or a smaller --scale"
            )
        self.say(f"{words}; {humanize.size(free)} are free")
