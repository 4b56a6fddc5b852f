"""Shows the progress of a command on stderr if it is a terminal, and removes it at the end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

PATIENCE_S = 1.0  # a transfer that takes longer has a bar
POLL_S = 0.1


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """Shows a spinner with *words* until the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # The import takes 70 ms.

    with Console(stderr=True).status(words):
        yield


class Progress:
    """The progress of a long task: messages done, rate and, if the total is known, time left."""

    def __init__(self, bar: Any = None, task: Any = None) -> None:
        self._bar = bar
        self._task = task

    def advance(self, messages: int, size_bytes: int) -> None:
        """Adds *messages* and *size_bytes* of input to the progress."""
        if self._bar is not None:
            done = self._bar.tasks[self._task].fields["messages"] + messages
            self._bar.update(self._task, advance=size_bytes, messages=done)


@contextmanager
def bar(words: str, total_bytes: int | None) -> Iterator[Progress]:
    """Shows a bar with *words* until the block ends. Without a total the bar only pulses."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console  # The import takes 70 ms.
    from rich.progress import (
        BarColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[messages]:,}"),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        *([] if total_bytes is None else [TimeRemainingColumn()]),
    ]
    with Bar(*columns, console=Console(stderr=True), transient=True) as shown:
        yield Progress(shown, shown.add_task(words, total=total_bytes, messages=0))


@contextmanager
def counted(words: str, total: int) -> Iterator[Callable[[int], object]]:
    """Shows a bar until the block ends, and yields a function that adds to the number."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console  # The import takes 70 ms.
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Bar(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as shown:
        task = shown.add_task(words, total=total)
        yield lambda more: shown.advance(task, more)


Sized = Callable[[str, int, int], object]  # arguments: current task, bytes done, total bytes


@contextmanager
def sized(words: str) -> Iterator[Sized]:
    """Shows a bar of bytes until the block ends, and yields a function that updates the bar."""
    if not sys.stderr.isatty():
        yield lambda words, done, total: None
        return
    from rich.console import Console  # The import takes 70 ms.
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True)
    with Bar(
        *columns, TransferSpeedColumn(), console=Console(stderr=True), transient=True
    ) as shown:
        task = shown.add_task(words, total=None)
        yield lambda words, done, total: shown.update(
            task, description=words, completed=done, total=total or None
        )


@contextmanager
def transfer(words: str, progress_of: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Shows a bar of bytes while a long message is in transit for more than a second.

    *progress_of* returns the bytes done and the total bytes. It is called by another thread.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = Event()
    thread = Thread(target=_follow, args=(words, progress_of, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(words: str, progress_of: Callable[[], tuple[int, int]], over: Event) -> None:
    while not over.wait(POLL_S):
        if not progress_of()[1] or over.wait(PATIENCE_S) or not progress_of()[1]:
            continue
        with sized(words) as show:
            while (found := progress_of())[1]:
                show(words, *found)
                if over.wait(POLL_S):
                    return


@contextmanager
def steps(total: int) -> Iterator[Callable[[str, int], object]]:
    """Shows a bar of *total* steps, and yields a function that sets the current step."""
    if not sys.stderr.isatty():
        yield lambda words, done: None
        return
    from rich.console import Console  # The import takes 70 ms.
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    text = TextColumn("{task.description}", markup=False)
    with Bar(*columns, text, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda words, done: shown.update(task, description=words, completed=done)
