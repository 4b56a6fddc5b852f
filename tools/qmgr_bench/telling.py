"""How far a long run is: one line that changes on a terminal, elsewhere a line now and then."""

import shutil
import sys
import time

from qmgr_tools.cli import output

LINE_EVERY_S = 5.0  # where no terminal shows how far it is


class Telling:
    """What is said on stderr."""

    def __init__(self) -> None:
        self._told_s = -LINE_EVERY_S

    def say(self, words: str) -> None:
        """Tells *words*, until there are others."""
        if sys.stderr.isatty():
            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{words[:room]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._told_s + LINE_EVERY_S:
            self._told_s = time.monotonic()
            output.note(words)

    def note(self, words: str) -> None:
        """Tells *words*, which stay."""
        self.end()
        output.note(words)

    def end(self) -> None:
        """Takes the line away that changes."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
