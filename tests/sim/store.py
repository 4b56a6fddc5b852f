"""The production memory store, with crashes on request, observed at each commit."""

from collections.abc import Callable
from typing import NamedTuple

from tests.memory_store import MemoryStore


class Crash(BaseException):
    """Kills the process. This class is not an Exception, so that the daemon does not catch it."""


class Change(NamedTuple):
    """A change of a row by a transaction."""

    key: bytes
    old: bytes | None
    new: bytes | None


class WatchedStore(MemoryStore):
    """A MemoryStore that reports each transaction to *watch* at the instant it is durable.

    With ``crash`` set, the process ends at the next commit that writes: "before" the commit is
    durable, or "after" it is durable but before any other component knows.
    """

    def __init__(self, watch: Callable[[list[Change]], None]) -> None:
        super().__init__()
        self.crash = ""
        self._watch = watch
        self._changes: list[Change] = []
        self.before_commit = self._before
        self.after_commit = self._after

    def _before(self) -> None:
        if self.crash == "before":
            raise Crash
        rows = self.rows
        self._changes = [Change(key, old, rows.get(key)) for key, old in self._undo.items()]

    def _after(self) -> None:
        changes, self._changes = self._changes, []
        if changes:
            self._watch(changes)
        if self.crash == "after":
            raise Crash
