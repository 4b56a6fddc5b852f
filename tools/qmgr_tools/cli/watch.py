"""--watch: what a command shows, again and again until Ctrl-C.

On a terminal the newest takes the place of the one before; elsewhere one follows the other, as JSON
a document on each line. A daemon that is lost is told of and tried again; one that was never
reached is a failure, as without --watch.
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
from qmgr_tools.cli import completion, help_text, option, output
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.failure import Exit, Failure

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_tools.cli.command import Call

EVERY = "2s"  # where --watch stands alone
RETRY_S = 1.0  # at most, between tries to reach a daemon that is lost
OPTION = "--watch"

Watch = Annotated[
    float | None,
    typer.Option(
        OPTION,
        metavar="[TIME]",
        parser=option.seconds,
        show_default=False,
        autocompletion=completion.of_argument,
        help=f'Again and again until Ctrl-C: every TIME ("5s"; else {EVERY}).',
    ),
]
Value = TypeVar("Value")


class Command(help_text.Command):
    """A command that takes --watch with and without a time."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*, with the time that --watch lacks."""
        return super().parse_args(ctx, timed(args))


def timed(words: Sequence[str]) -> list[str]:
    """Return *words* with a time for a --watch that has none: what follows may be a queue."""
    found: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*found, *words[place:]]
        following = words[place + 1] if place + 1 < len(words) else ""
        is_alone = word == OPTION and not option.TIME.fullmatch(following)
        found.append(f"{OPTION}={EVERY}" if is_alone else word)
    return found


class Screen(Protocol):
    """Where what is watched appears."""

    def show(self, tell: Callable[[], None]) -> None:
        """Have what *tell* prints appear."""

    def lose(self, why: str) -> None:
        """Say that the daemon is lost, and *why*."""


def follow(
    call: "Call",
    doing: str,
    ask: "Callable[[Client], Value]",
    tell: Callable[[Value], None],
    known: str = "",
    as_json: Callable[[Value], Any] = lambda found: found,
) -> None:
    """Show what *ask* gets: as JSON, or by *tell*; once, or until Ctrl-C if the call watches.

    Args:
        doing: as for Call.client; so is *known*.
        as_json: converts the result to what JSON output prints.
    """
    every_s = call.watch_s
    if every_s is None:
        with call.client(doing, known) as client:
            found = ask(client)
        if call.is_json:
            output.document(as_json(found))
        else:
            tell(found)
        return
    call = call.held()
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
                            screen.show(partial(tell, found))
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
    return _Terminal(humane.duration(round(every_s * SECOND_MS)))


class _Roll:
    """One after the other."""

    def __init__(self, gap: str) -> None:
        self._gap = gap
        self._is_first = True
        self._is_lost = False

    def show(self, tell: Callable[[], None]) -> None:
        if self._is_lost:
            output.note("the daemon is there again")
        if not self._is_first:
            sys.stdout.write(self._gap)
        self._is_first = self._is_lost = False
        tell()
        sys.stdout.flush()

    def lose(self, why: str) -> None:
        if not self._is_lost:
            output.note(f"lost the daemon: {why}; trying again")
        self._is_lost = True


class _Terminal:
    """The newest in the place of the one before."""

    def __init__(self, every: str) -> None:
        from rich.live import Live  # takes 70 ms

        self._live = Live(auto_refresh=False)
        self._every = every
        self._shown: Any = ""
        self._shown_at = ""

    def __enter__(self) -> "_Terminal":
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def show(self, tell: Callable[[], None]) -> None:
        from rich.text import Text

        paper = _Paper()
        with redirect_stdout(paper):
            tell()
        self._shown = Text.from_ansi(paper.getvalue())
        self._shown_at = time.strftime("%H:%M:%S")
        self._draw(f"{self._shown_at}, every {self._every}; Ctrl-C ends it", "dim")

    def lose(self, why: str) -> None:
        head = f"lost the daemon: {why}; trying again. This was at {self._shown_at}:"
        self._draw(head, "bold red")

    def _draw(self, head: str, style: str) -> None:
        from rich.console import Group
        from rich.text import Text

        self._live.update(Group(Text(head, style=style), "", self._shown), refresh=True)


class _Paper(io.StringIO):
    """Takes what is printed, as a terminal would have it."""

    def isatty(self) -> bool:
        return True
