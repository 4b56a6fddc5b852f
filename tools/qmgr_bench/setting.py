"""How rows are run: where, for how long, how often, and to whom it is told."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qmgr_bench.load import LoadFailed
from qmgr_tools.cli import humanize as humane

BYTES_A_MESSAGE = 560  # in the store, of 256 B each: what a fill took, and a little
BYTES_SPARE = 2 << 30  # what the rounds put on top, and what the daemon wants to be free


def _nobody(words: str) -> None:
    del words


@dataclass(frozen=True, slots=True)
class Setting:
    """How rows are run."""

    directory: Path  # on the disk to measure
    seconds: float  # of each measurement
    rounds: int
    scale: float = 1.0  # of all depths: 1 is what the targets are about
    say: Callable[[str], None] = _nobody  # hears how far it is
    note: Callable[[str], None] = _nobody  # hears what is to be seen later, too
    peers: tuple[str, ...] = ()  # which others are measured beside rows of our own

    def scaled(self, messages: int) -> int:
        """Returns a number of *messages* to scale, and one at least."""
        return max(round(messages * self.scale), 1)

    def check_disk(self, messages: int) -> None:
        """Says how much of the disk *messages* take.

        Raises:
            LoadFailed: that is more than is free.
        """
        needed, free = messages * BYTES_A_MESSAGE, shutil.disk_usage(self.directory).free
        words = f"{messages:,} messages need about {humane.size(needed)} of the disk"
        if needed + BYTES_SPARE > free:
            raise LoadFailed(
                f"{words}, and {humane.size(BYTES_SPARE)} to work in; {humane.size(free)} are "
                "free: give another --dir, or a smaller --scale"
            )
        self.say(f"{words}; {humane.size(free)} are free")
