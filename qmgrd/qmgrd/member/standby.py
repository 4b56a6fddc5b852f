"""A standby: follows the log, and becomes active when the active member has ended.

    look ─▶ records ─▶ store.follow ─▶ has the active member ended? ─▶ claim ─▶ the rest of the log
                                                                                    │
                                                          the store is that of the active member

The active member counts as ended if its session has ended, or if it has appended nothing for
journal.takeover_ms. This time is measured here, from the arrival of the last record, so no two
clocks are compared.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import psycopg
import structlog

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.engine.appender import Segment
from qmgrd.engine.fence import Fence, claim
from qmgrd.engine.reader import EMPTY_BYTES, LogReader, News
from qmgrd.engine.schema import Place, create_segment, segments
from qmgrd.engine.server import ServerAway, ServerUnusable, connect, explained
from qmgrd.process.journal_state import RETRY_MS
from qmgrd.store.logged_store import LoggedStore

POLL_S = 0.1
RETRY_S = 0.5
# The time in which an active member whose session has ended can begin another one. After a short
# failure of the network or a restart of the server, the same member goes on.
GRACE_S = 0.7
ORDERLY_WAIT_S = 3.0  # after a switch-over, the time that other members have to become active first
FOLLOW_RECORDS = 64  # records that are followed before the event loop may do other work

T = TypeVar("T")
log = structlog.get_logger()


class Taken(NamedTuple):
    """The means with which a member is active."""

    connection: psycopg.Connection
    epoch: int
    segment: Segment
    away_us: int  # the time since the last record of the log, by the clock of the server
    since_us: int  # the time of the takeover, by the clock of the server
    why: str


class Standby:
    """One time as a standby."""

    def __init__(
        self,
        url: str,
        place: Place,
        store: LoggedStore,
        names: tuple[str, str, str],
        takeover_s: float,
        *,
        gives_way: bool = False,
    ) -> None:
        """Creates a standby.

        Args:
            names: The name of the queue manager, the name of this member, and its addresses.
            takeover_s: The time without a record after which the standby becomes active.
            gives_way: Whether other members may become active first, after a switch-over.
        """
        self._url, self._place, self._store = url, place, store
        self._manager, self._member, self._addresses = names
        self._takeover_s = takeover_s
        self._thread = ThreadPoolExecutor(1, "follow")
        self._reader = LogReader(url, place, "standby")
        self._seen_s = time.monotonic()  # when the last record or epoch was seen
        self._free_s = self._seen_s + ORDERLY_WAIT_S if gives_way else 0.0
        self._epoch = -1
        self._free_since_s: float | None = None  # since when no session is active
        self._last_us = 0  # the time of the last record, by the clock of the server
        self._is_stopped = False
        self._trouble = ""
        self.fence: Fence | None = None

    def stop(self) -> None:
        """Makes :meth:`run` return None."""
        self._is_stopped = True

    def goodbye(self) -> m.Goaway:
        """Returns the answer to a client."""
        return m.Goaway(ErrorCode.NOT_ACTIVE, self.words(), RETRY_MS)

    def words(self) -> str:
        """Returns what is known about the active member."""
        fence = self.fence
        if fence is None:
            waits = f"waits for the journal: {self._trouble}" if self._trouble else "is starting"
            return f"this member of {self._manager} {waits}"
        if not fence.member or not fence.is_held:
            return f"no member of {self._manager} is active at the moment"
        return f"{self._manager} is active at {fence.addresses} (member {fence.member})"

    async def run(self) -> Taken | None:
        """Follows the log until this member is active. Returns None after :meth:`stop`.

        Raises:
            LogTrimmed: The store needs a base.
            LogShort: The store is not a copy of the log.
            StoreFailed: LMDB failed.
        """
        try:
            while not self._is_stopped:
                try:
                    taken = await self._step()
                except (ServerAway, ServerUnusable) as error:
                    self._note(error)
                    # Nobody can append, or keep a session, while the server is away.
                    self._seen_s, self._free_since_s = time.monotonic(), None
                    await asyncio.sleep(RETRY_S)
                else:
                    if taken is not None:
                        return taken
            return None
        finally:
            self._reader.close()
            self._thread.shutdown(wait=False)

    async def _step(self) -> Taken | None:
        news = await self._look()
        self.fence = news.fence
        if self._trouble:
            log.info("the server of the journal answers again")
            self._trouble = ""
        if not news.is_end:
            return None
        self._store.checkpoint()
        why = self._why_now(news.fence)
        if why:
            taken = await self._take(news.fence, why)
            if taken is not None:
                return taken
        await asyncio.sleep(POLL_S)
        return None

    async def _look(self) -> News:
        news = await self._in_thread(lambda: self._reader.look(self._store.position))
        for at, record in enumerate(news.records, 1):
            self._store.follow(record)
            if at % FOLLOW_RECORDS == 0:
                await asyncio.sleep(0)
        self._last_us = news.at_us or self._last_us
        if news.records or news.fence.epoch != self._epoch:
            self._seen_s, self._epoch = time.monotonic(), news.fence.epoch
        return news

    def _why_now(self, fence: Fence) -> str:
        """Returns the reason why this member should become active now, or ""."""
        now_s = time.monotonic()
        if fence.is_held:
            self._free_since_s = None
            silent_s = now_s - self._seen_s
            is_silent = silent_s >= self._takeover_s
            return f"{fence.member} appended nothing for {silent_s:.1f} s" if is_silent else ""
        self._free_since_s = self._free_since_s or now_s
        if fence.member and now_s - max(self._free_since_s, self._seen_s) < GRACE_S:
            return ""
        if fence.wanted and fence.wanted != self._member:
            return "" if now_s - self._seen_s < ORDERLY_WAIT_S else f"{fence.wanted} did not start"
        if now_s < self._free_s:
            return ""
        if fence.wanted:
            return "an operator switched over"
        if not fence.member:
            return fence.why or "the first start"
        return f"the session of {fence.member} ended"

    async def _take(self, fence: Fence, why: str) -> Taken | None:
        connection = await self._in_thread(lambda: connect(self._url, "active"))
        try:
            is_forced = fence.is_held
            names = self._member, self._addresses, why
            claimed = await self._in_sql(
                lambda: claim(connection, self._place, fence, *names, is_forced=is_forced)
            )
            if claimed is None:
                connection.close()
                return None
            while not (await self._look()).is_end:
                pass
            segment = await self._in_sql(lambda: self._segment(connection))
            last_us = self._last_us or await self._in_sql(lambda: self._time_of_end(connection))
        except BaseException:
            with suppress(psycopg.Error):
                connection.close()
            raise
        away_us = max(claimed.now_us - last_us, 0) if last_us else 0
        return Taken(connection, claimed.epoch, segment, away_us, claimed.now_us, why)

    def _segment(self, connection: psycopg.Connection) -> Segment:
        """Returns the last segment of the log. Creates the first one."""
        found = segments(connection, self._place)
        if not found:
            connection.execute(create_segment(self._place, 1))
            found = [1]
        row = connection.execute(
            "select pg_total_relation_size(%s::regclass)", (self._place.segment(found[-1]),)
        ).fetchone()
        return Segment(found[-1], int(row[0]) if row is not None else 0)

    def _time_of_end(self, connection: psycopg.Connection) -> int:
        for number in reversed(segments(connection, self._place)):
            row = connection.execute(
                "select (extract(epoch from at) * 1000000)::bigint from "
                f"{self._place.segment(number)} where octet_length(content) > %s "
                "order by record desc limit 1",
                (EMPTY_BYTES,),
            ).fetchone()
            if row is not None:
                return int(row[0])
        return 0

    def _note(self, error: Exception) -> None:
        if not self._trouble:
            level = "error" if isinstance(error, ServerUnusable) else "warning"
            getattr(log, level)("this standby waits for the server", why=str(error))
        self._trouble = str(error)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _in_sql(self, call: Callable[[], Any]) -> Any:
        try:
            return await self._in_thread(call)
        except psycopg.Error as error:
            raise explained(error) from error
