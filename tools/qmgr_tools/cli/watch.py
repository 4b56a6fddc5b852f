"""--watch: repeats the output of a command until Ctrl-C.

On a terminal each output replaces the previous one. Without a terminal the outputs follow one
another. JSON has one document per line. If the connection to the daemon is lost, --watch reports
the loss and reconnects. If the first connection fails, the command fails, as without --watch.
"""

import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from qmgr_config.units import SECOND_MS
from qmgr_tools.cli import completion, help_text, humanize, option, output
from qmgr_tools.cli.failure import Exit, Failure

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_tools.cli.command import Call

EVERY = "2s"  # default time of --watch
RETRY_S = 1.0  # longest pause between attempts to reconnect to a daemon
OPTION = "--watch"

Watch = Annotated[
    float | None,
    typer.Option(
        OPTION,
        metavar="[TIME]",
        parser=option.seconds,
        show_default=False,
        autocompletion=completion.of_argument,
        help=f"Repeat every TIME until Ctrl-C. Default: {EVERY}.",
    ),
]
Value = TypeVar("Value")


class WatchCommand(help_text.HelpCommand):
    """A command that accepts --watch with and without a time."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses *args*, with a default time for --watch."""
        return super().parse_args(ctx, timed(args))


def timed(words: Sequence[str]) -> list[str]:
    """Returns *words* with the default time for a --watch whose next word is not a time."""
    found: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*found, *words[place:]]
        following = words[place + 1] if place + 1 < len(words) else ""
        is_alone = word == OPTION and not option.TIME.fullmatch(following)
        found.append(f"{OPTION}={EVERY}" if is_alone else word)
    return found


class Screen(Protocol):
    """A display of the repeated output."""

    def show(self, write: Callable[[], None]) -> None:
        """Shows the output of *write*."""

    def lose(self, why: str) -> None:
        """Reports a lost connection, with the reason *why*."""


def follow(
    call: "Call",
    doing: str,
    ask: "Callable[[Client], Value]",
    write: Callable[[Value], None],
    known: str = "",
    as_json: Callable[[Value], Any] = lambda found: found,
) -> None:
    """Shows the result of *ask* as JSON or with *write*. With --watch, repeats until Ctrl-C.

    Args:
        doing: The task, as in Call.client.
        known: The queue that the command names, as in Call.client.
        as_json: A function that converts the result for JSON output.
    """
    every_s = call.watch_s
    if every_s is None:
        with call.client(doing, known) as client:
            found = ask(client)
        if call.is_json:
            output.document(as_json(found))
        else:
            write(found)
        return
    call = call.pinned(doing)
    with _screen(call, every_s) as screen:
        is_reached = False
        while True:
            try:
                patience_ms = 0 if is_reached else None
                with call.client(doing, known, give_up_ms=0, patience_ms=patience_ms) as client:
                    while True:
                        found = ask(client)
                        is_reached = True
                        if call.is_json:
                            screen.show(partial(output.line, as_json(found)))
                        else:
                            screen.show(partial(write, found))
                        time.sleep(every_s)
            except Failure as failure:
                if failure.exit_code is not Exit.UNAVAILABLE or not is_reached:
                    raise
                screen.lose(failure.parts[1])
                time.sleep(min(every_s, RETRY_S))


def _screen(call: "Call", every_s: float) -> AbstractContextManager[Screen]:
    is_dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    if call.is_json or is_dumb or not sys.stdout.isatty():
        return nullcontext(_Roll(gap="" if call.is_json else "\n"))
    return _Terminal(humanize.duration(round(every_s * SECOND_MS)))


class _Roll:
    """A display that prints one output after the other."""

    def __init__(self, gap: str) -> None:
        self._gap = gap
        self._is_first = True
        self._is_lost = False

    def show(self, write: Callable[[], None]) -> None:
        if self._is_lost:
            output.note("connected again")
        if not self._is_first:
            sys.stdout.write(self._gap)
        self._is_first = self._is_lost = False
        write()
        sys.stdout.flush()

    def lose(self, why: str) -> None:
        if not self._is_lost:
            output.note(f"lost the connection: {why}; reconnecting")
        self._is_lost = True


class _Terminal:
    """A display that replaces each output with the next."""

    def __init__(self, every: str) -> None:
        from rich.live import Live  # The import takes 70 ms.

        self._live = Live(auto_refresh=False)
        self._every = every
        self._shown: Any = ""
        self._shown_at = ""

    def __enter__(self) -> "_Terminal":
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def show(self, write: Callable[[], None]) -> None:
        from rich.text import Text

        buffer = _TerminalBuffer()
        with redirect_stdout(buffer):
            write()
        self._shown = Text.from_ansi(buffer.getvalue())
        self._shown_at = time.strftime("%H:%M:%S")
        self._draw(f"{self._shown_at}, every {self._every}; press Ctrl-C to end", "dim")

    def lose(self, why: str) -> None:
        head = f"lost the connection: {why}; reconnecting. State at {self._shown_at}:"
        self._draw(head, "bold red")

    def _draw(self, head: str, style: str) -> None:
        from rich.console import Group
        from rich.text import Text

        self._live.update(Group(Text(head, style=style), "", self._shown), refresh=True)


class _TerminalBuffer(io.StringIO):
    """A buffer that claims to be a terminal."""

    def isatty(self) -> bool:
        return True
