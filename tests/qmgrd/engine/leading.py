"""An active member for tests: an appender, and the results of its records."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import wait
from contextlib import asynccontextmanager
from typing import Any

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine.appender import SEGMENT_BYTES, Appender, Segment
from qmgrd.engine.fence import claim
from qmgrd.engine.schema import segments
from qmgrd.engine.server import connect
from qmgrd.store.log import Fenced
from tests.qmgrd.engine.journals import POLL_S, POLLS, Journal, content_of

PATIENCE_S = 60


class Leader:
    """An appender and the results that it has reported."""

    def __init__(self, journal: Journal, url: str, segment_bytes: int, *, is_forced: bool) -> None:
        self.journal = journal
        self.results: list[StoreFailed | None] = []
        self.raises = False  # whether an error is raised, as by a store that settles
        self._landed = asyncio.Event()
        connection = connect(url, "active")
        seen, place = journal.fence(), journal.place
        claimed = claim(connection, place, seen, "A", "", "a test", is_forced=is_forced)
        assert claimed is not None
        self.epoch = claimed.epoch
        if not (found := segments(journal.admin, place)):
            journal.create(1)
        segment = Segment(found[-1] if found else 1, 0)
        self.appender = Appender(
            connection, url, place, claimed.epoch, segment, self._note, segment_bytes
        )

    def _note(self, error: StoreFailed | None) -> None:
        self.results.append(error)
        self._landed.set()
        if error is not None and self.raises:
            raise error

    async def result(self, count: int) -> StoreFailed | None:
        """Returns the last one of *count* results, as soon as it was reported."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.results) < count:
                self._landed.clear()
                await self._landed.wait()
        assert len(self.results) == count, "a result was reported twice"
        return self.results[-1]

    def is_fenced(self) -> bool:
        """Returns whether the last result was that another member is active."""
        return isinstance(self.results[-1], Fenced)

    async def append(self, *numbers: int, size: int = 3) -> None:
        """Appends records, one after the other."""
        for number in numbers:
            count = len(self.results) + 1
            self.appender.send(number, content_of(number, size))
            assert await self.result(count) is None

    async def until(self, is_true: Callable[[], Any]) -> None:
        """Returns when *is_true* returns a true value."""
        for _ in range(POLLS):
            if is_true():
                return
            await asyncio.sleep(POLL_S)
        raise AssertionError("the state was not reached")

    async def blocked(self) -> int:
        """Returns the process of the active session, once its statement waits for a lock."""
        pid = self.journal.holder()
        assert pid is not None
        await self.until(lambda: self.journal.is_blocked(pid))
        return pid

    def answer(self) -> None:
        """Waits for the answer to the last question."""
        question = self.appender._question
        if question is not None:
            wait([question])

    def check(self, *numbers: int, size: int = 3) -> None:
        """Checks that the log has exactly these records, each one once."""
        found = [(record.number, record.content) for record in self.journal.records()]
        assert found == [(number, content_of(number, size)) for number in numbers]


@asynccontextmanager
async def leading(
    journal: Journal, url: str = "", segment_bytes: int = SEGMENT_BYTES, *, is_forced: bool = False
) -> AsyncIterator[Leader]:
    """Makes a member active, and checks at the end that no callback has failed."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    leader = Leader(journal, url or journal.url, segment_bytes, is_forced=is_forced)
    try:
        yield leader
    finally:
        leader.appender.close()
        leader.answer()
    await asyncio.sleep(0)
    assert failures == []
