"""A store on a slow disk, whose records become durable when a test wants it."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store.journal_store import JournalStore
from tests.disk_stores import JOURNAL_BYTES, RecordingStore


class LateFuture(Future[None]):
    """A future that makes its call when its result is needed, or in :meth:`make`."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self._call = call

    def make(self) -> None:
        """Makes the call, at most once."""
        if self.done():
            return
        try:
            self._call()
        except Exception as error:
            self.set_exception(error)
        else:
            self.set_result(None)

    def result(self, timeout: float | None = None) -> None:
        self.make()
        return super().result(timeout)


class SlowDisk:
    """Takes the place of the thread that writes records.

    ``flight`` is the record on its way, and ``reports`` are calls for the thread of the turns.
    """

    def __init__(self, store: JournalStore) -> None:
        self.flight: LateFuture | None = None
        self.reports: list[Callable[[], None]] = []
        self.errors: list[StoreFailed | None] = []  # the arguments of on_durable
        self.later: list[Callable[[], None]] | None = None  # delayed calls; None: made at once
        store.go_ahead(self.reports.append, self._call_later, self.errors.append)
        assert store._thread is not None
        store._thread.shutdown()
        store._thread = self  # type: ignore[assignment]

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        if self.later is None:
            call()
        else:
            self.later.append(call)

    def submit(self, function: Callable[..., None], *arguments: Any) -> "Future[None]":
        """Keeps a call for later."""
        assert self.flight is None or self.flight.done(), "two records are on their way"
        self.flight = LateFuture(lambda: function(*arguments))
        return self.flight

    def land(self) -> None:
        """Writes the record that is on its way, and reports it to the store."""
        if self.flight is not None:
            self.flight.make()
        self.report()

    def report(self) -> None:
        """Makes the calls for the thread of the turns."""
        reports, self.reports[:] = list(self.reports), []
        for report in reports:
            report()

    def shutdown(self) -> None:
        """Writes the record that is on its way, as the end of a thread does."""
        if self.flight is not None:
            self.flight.make()


class SlowStore(RecordingStore):
    """A store whose every flush is slow."""

    def _may_go_on(self) -> bool:
        return True


def slow_store(
    directory: Path, map_bytes: int, journal_bytes: int = JOURNAL_BYTES
) -> tuple[SlowStore, SlowDisk]:
    """Returns a store, and the disk that its records go to."""
    store = SlowStore(directory, map_bytes, journal_bytes)
    return store, SlowDisk(store)
