"""The settings of rows: directory, duration, number of rounds, and progress reports."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qmgr_bench.load import LoadFailed
from qmgr_tools.cli import humanize as humanize

BYTES_A_MESSAGE = 560  # store size per message of 256 B after a fill, with a margin
BYTES_SPARE = 2 << 30  # space for the rounds, and free space that the daemon needs


def _nobody(words: str) -> None:
    del words


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings for running rows."""

    directory: Path  # directory on the disk to measure
    seconds: float  # duration of each measurement
    rounds: int
    scale: float = 1.0  # factor for all depths; targets apply only at 1
    say: Callable[[str], None] = _nobody  # function that receives the progress
    note: Callable[[str], None] = _nobody  # function that receives lines that stay visible
    peers: tuple[str, ...] = ()  # names of the peers to measure in rows of our own

    def scaled(self, messages: int) -> int:
        """Returns *messages* times the scale, at least 1."""
        return max(round(messages * self.scale), 1)

    def check_disk(self, messages: int) -> None:
        """Reports the disk space that *messages* need.

        Raises:
            LoadFailed: The disk has less free space.
        """
        needed, free = messages * BYTES_A_MESSAGE, shutil.disk_usage(self.directory).free
        words = f"{messages:,} messages need about {humanize.size(needed)} of disk space"
        if needed + BYTES_SPARE > free:
            raise LoadFailed(
                f"{words} and {humanize.size(BYTES_SPARE)} for the work, "
                f"but {humanize.size(free)} are free: use another --dir, or a smaller --scale"
            )
        self.say(f"{words}; {humanize.size(free)} are free")
