"""A server of logs in memory, with the faults of a real one."""

from collections.abc import Callable

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store.log import Fenced, Record
from qmgrd.store.logged_store import LoggedStore

LOG_ID = b"log--id-"


class FakeServer:
    """The records of one log, and its fence.

    ``records[n - 1]`` is record *n*.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epoch = 0

    def claim(self, store: LoggedStore, silence_max_s: float = 10.0) -> "FakeLog":
        """Makes the member of *store* active, after it has followed the log to its end."""
        self.epoch += 1
        self.follow(store)
        log = FakeLog(self, self.epoch, store.landed)
        store.lead(log, self.epoch, away_us=0, silence_max_s=silence_max_s)
        return log

    def follow(self, store: LoggedStore) -> None:
        """Gives *store* the records that it lacks."""
        for record in self.records[store.position.number :]:
            store.follow(record)

    def append(self, record: Record) -> bool:
        """Appends a record of the current epoch. Returns whether the log has the record."""
        at = record.number - 1
        if self.records[at:] == [record]:
            return True
        if record.epoch != self.epoch:
            return False
        assert at == len(self.records), f"record {record.number} after {len(self.records)}"
        self.records.append(record)
        return True


class FakeLog:
    """The log of an active member. A record moves only when a test wants it.

    ``flight`` is the record on its way, or None. ``is_there`` says whether the server has it.
    """

    def __init__(
        self, server: FakeServer, epoch: int, landed: Callable[[StoreFailed | None], None]
    ) -> None:
        self._server, self._epoch, self._landed = server, epoch, landed
        self.flight: Record | None = None
        self.away_s, self.trouble = 0.0, ""

    def send(self, number: int, content: bytes) -> None:
        """Keeps a record for later."""
        assert self.flight is None, "two records are on their way"
        self.flight = Record(number, self._epoch, content)

    def arrive(self) -> bool:
        """Lets the record reach the server. Its answer stays on the way."""
        return self.flight is not None and self._server.append(self.flight)

    def answer(self) -> None:
        """Lets the record reach the server, and its answer the member."""
        if self.flight is None:
            return
        is_there = self.arrive()
        self.flight = None
        self._landed(None if is_there else Fenced("another member is active"))

    def wait(self) -> None:
        """Lets the answer arrive."""
        self.answer()
