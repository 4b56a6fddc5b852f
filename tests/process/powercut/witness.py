"""A store that notes what it has after each turn, and when a turn begins to be and is durable."""

import struct
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from qmgrd.core.layout import keys
from qmgrd.store.journal_store import JournalStore
from tests.process.powercut.disk import Tree
from tests.process.powercut.recorder import Entry, Recorder
from tests.slow_disk import SlowDisk

MAP_BYTES = 4 << 20
JOURNAL_BYTES = 48 << 10
_MARK = struct.Struct(">cI")

Rows = dict[bytes, bytes]


class Segment(NamedTuple):
    """The work between two power cuts: the disk at its start, and the log since then.

    ``inodes`` are those of the disk at its start, and ``first`` is the number of its turn.
    """

    initial: Tree
    inodes: dict[str, int]
    log: list[Entry]
    first: int


class Witness:
    """The rows of a store after each turn. Turn 0 is the empty store."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.turns: list[Rows] = [{}]
        self.facts: list[Any] = [None]  # what a client knows after the turn, if there is one

    @property
    def rows(self) -> Rows:
        """The rows after the last turn."""
        return self.turns[-1]

    def tries(self, changes: list[bytes | None]) -> None:
        """Notes that a turn with *changes* begins to become durable."""
        rows = dict(self.rows)
        for key, value in zip(changes[::2], changes[1::2], strict=True):
            assert key is not None
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        self.turns.append(rows)
        self.facts.append(None)
        self._mark(b"t")

    def acknowledges(self, number: int = -1) -> None:
        """Notes that a turn, the last one by default, is durable, so that its outcome is sent."""
        self._mark(b"a", number)

    def recovers(self, number: int) -> None:
        """Notes that the store has only turns up to *number*, as after a power cut."""
        self.turns.append(self.turns[number])
        self.facts.append(self.facts[number])

    def _mark(self, kind: bytes, number: int = -1) -> None:
        self.recorder.mark(_MARK.pack(kind, number % len(self.turns)))


def bounds(segment: Segment, count: int) -> range:
    """Returns the turns that the store may have after *count* entries of the log."""
    acknowledged = tried = segment.first
    for entry in segment.log[:count]:
        if entry.kind == "M":
            kind, number = _MARK.unpack(entry.data)
            tried = max(tried, number)
            if kind == b"a":
                acknowledged = number
    return range(acknowledged, tried + 1)


class WitnessedStore(JournalStore):
    """A store on a slow disk, whose turns a witness notes.

    ``waiting`` has the numbers of records and turns that may not be durable yet.
    """

    def __init__(self, directory: Path, witness: Witness) -> None:
        self.witness = witness
        super().__init__(directory, MAP_BYTES, JOURNAL_BYTES)
        self.disk = SlowDisk(self)
        self.waiting: deque[tuple[int, int]] = deque()

    def _may_go_on(self) -> bool:
        return True

    def commit(self) -> None:
        changes = self._tried()
        super().commit()
        self.waiting.clear()
        if changes:
            self.witness.acknowledges()

    def commit_soon(self) -> int:
        self._tried()
        number = super().commit_soon()
        self.waiting.append((number, len(self.witness.turns) - 1))
        self.send_durable()
        return number

    def land(self) -> None:
        """Writes the record that is on its way."""
        self.disk.land()
        self.send_durable()

    def send_durable(self) -> None:
        """Notes the turns that are durable now."""
        while self.waiting and self.waiting[0][0] <= self.durable:
            self.witness.acknowledges(self.waiting.popleft()[1])

    def _tried(self) -> list[bytes | None]:
        """Returns the changes of the turn, after the witness has noted them."""
        changes = list(self._open.changes) if self._open is not None else []
        if changes:
            self.witness.tries(changes)
        return changes

    def make_checkpoint_due(self) -> None:
        """Makes the next turn a checkpoint."""
        self._since_bytes = self._limit_bytes


def kill(store: JournalStore) -> None:
    """Closes all files, as a kill does."""
    store.abort()
    store._is_failed = True  # so that the close makes no checkpoint
    store.close()


def rows_of(pairs: Any) -> Rows:
    """Returns the rows that turns change, from those of a store."""
    return {key: value for key, value in pairs if key != keys.CHECKPOINT}
