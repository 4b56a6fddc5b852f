"""The progress of a long run: one changing line on a terminal, otherwise a line every 5 s."""

import shutil
import sys
import time

from qmgr_tools.cli import output

LINE_EVERY_S = 5.0  # time between lines if the output is not a terminal


class ProgressLine:
    """The progress output on stderr."""

    def __init__(self) -> None:
        self._told_s = -LINE_EVERY_S

    def say(self, words: str) -> None:
        """Shows *words* until the next call."""
        if sys.stderr.isatty():
            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{words[:room]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._told_s + LINE_EVERY_S:
            self._told_s = time.monotonic()
            output.note(words)

    def note(self, words: str) -> None:
        """Prints *words* permanently."""
        self.end()
        output.note(words)

    def end(self) -> None:
        """Removes the changing line from the terminal."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
