"""Appends the records of an active member to its log, without waiting on the event loop's thread.

    send ─▶ [take the lock] ─▶ [create the next segment] ─▶ [prepare]
         ─▶ insert, if the epoch is ours ─▶ landed
              │ the connection is lost, or no row was inserted
              ▼
            ask the log, on another thread ─▶ landed, or fenced, or send again (doubt.py)

The answer to a lost commit is never guessed.
"""

import asyncio
import select
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

import psycopg
import structlog
from psycopg import pq

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine.doubt import Doubt, ask
from qmgrd.engine.fence import try_lock
from qmgrd.engine.schema import Place, create_segment
from qmgrd.engine.server import ServerAway, ServerUnusable, explained
from qmgrd.store.log import Record

# The size of a segment, before the next one begins. The last segment is never dropped, so it must
# be much smaller than the log that makes a base due.
SEGMENT_BYTES = 32 << 20
ROW_BYTES = 100  # the size of a record without its content, and of its entry in the index
WAIT_MAX_S = 30.0
RETRY_MIN_S, RETRY_MAX_S = 0.1, 0.5
_BINARY = pq.Format.BINARY

log = structlog.get_logger()


class Segment(NamedTuple):
    """The segment that records are appended to."""

    number: int
    content_bytes: int  # its size, with what the rows need


class Appender:
    """The log of an active member.

    Invariant: ``_record`` is the record on its way, or None. ``_connection`` is None from the loss
    of the connection, or from an unclear answer, until the log was asked. After ``_is_closed``,
    nothing is reported.
    """

    def __init__(
        self,
        connection: psycopg.Connection,
        url: str,
        place: Place,
        epoch: int,
        segment: Segment,
        landed: Callable[[StoreFailed | None], None],
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Creates the appender of an epoch that :func:`claim` has begun on *connection*.

        Must be called on the thread of a running event loop.

        Args:
            landed: Called on that thread with the result of each record.
            segment_bytes: The size of a segment, before the next one begins.
        """
        self._url, self._place, self._epoch = url, place, epoch
        self._segment, self._segment_bytes = segment, segment_bytes
        self._landed = landed
        self._loop = asyncio.get_running_loop()
        self._connection: psycopg.Connection | None = None
        self._record: Record | None = None
        self._last = 0  # the last record that the log must have, or 0 if that is not known
        self._socket = self._session = -1
        self._has_lock = self._is_prepared = self._is_closed = False
        self._is_unsent = False  # whether a part of a statement is not yet written
        self._is_unchecked = False  # whether the log was asked when _last was not known
        self._then: Callable[[], None] = self._nothing  # what follows the statement on its way
        self._result: pq.abc.PGresult | None = None  # of the statement on its way
        self._has_warning = False  # whether the server warned about this statement
        self._question: Future[tuple[psycopg.Connection, bool]] | None = None
        self._away_s: float | None = None  # since when the server does not answer
        self._sent_s: float | None = None  # when the record on its way was sent
        self._ask_s = 0.0  # when the log is asked next
        self._retry_s = 0.0
        self.trouble = ""  # why the server does not answer, or ""
        self._use(connection)

    @property
    def away_s(self) -> float:
        """The time for which the server has not answered, in seconds."""
        since_s = self._sent_s if self._away_s is None else self._away_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def send(self, number: int, content: bytes) -> None:
        """Begins to append a record. Its result goes to *landed*."""
        assert self._record is None, "a record is on its way"
        self._record = Record(number, self._epoch, content)
        self._last = number - 1
        self._sent_s = time.monotonic()
        self._step()

    def wait(self) -> None:
        """Returns after the result of the record on its way was reported.

        Raises:
            StoreFailed: *landed* raised it, or the server did not answer in time.
        """
        end_s = time.monotonic() + WAIT_MAX_S
        while self._record is not None:
            if self._is_closed:
                raise StoreFailed("the log was closed")
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise StoreFailed(self.trouble or "the server of the journal does not answer")
            if self._connection is None:
                self._wait_for_answer(left_s)
            else:
                self._wait_for_socket(left_s)

    def close(self) -> None:
        """Ends the session, so that a standby sees that this member is not active any more."""
        self._is_closed = True
        self._drop()

    # -- a server that answers

    def _use(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._has_lock = self._is_prepared = False
        connection.add_notice_handler(self._noticed)
        connection.pgconn.nonblocking = 1
        self._session = connection.info.backend_pid
        self._socket = connection.pgconn.socket  # A connection that fails forgets its socket.
        self._loop.add_reader(self._socket, self._readable)

    def _step(self) -> None:
        """Sends the next statement for the record."""
        connection, record = self._connection, self._record
        if connection is None or record is None:
            return
        if self._is_unchecked:
            self._drop()
            self._ask()
            return
        self._result, self._has_warning = None, False
        try:
            self._send(connection.pgconn, record)
        except psycopg.Error as error:
            self._lose(error)
        else:
            self._flush()

    def _send(self, pgconn: "pq.abc.PGconn", record: Record) -> None:
        name = b"append_%d" % self._segment.number
        if not self._has_lock:
            self._then = self._locked
            pgconn.send_query(try_lock(self._place))
        elif self._segment.content_bytes >= self._segment_bytes:
            self._then = self._begin_segment
            pgconn.send_query(create_segment(self._place, self._segment.number + 1).encode())
        elif not self._is_prepared:
            self._then = self._prepared
            pgconn.send_prepare(name, self._insert())
        else:
            self._then = self._inserted
            values = record.number.to_bytes(8, "big"), record.content
            pgconn.send_query_prepared(name, values, (_BINARY, _BINARY), _BINARY)

    def _insert(self) -> bytes:
        return (
            f"insert into {self._place.segment(self._segment.number)} (record, epoch, content) "
            f"select $1::bigint, epoch, $2::bytea from qmgrd.manager "
            f"where number = {self._place.manager} and epoch = {self._epoch} for share "
            "on conflict do nothing"
        ).encode()

    def _flush(self) -> None:
        """Writes what is left of a statement."""
        connection = self._connection
        if connection is None:
            return
        try:
            is_left = connection.pgconn.flush()
        except psycopg.Error as error:
            self._lose(error)
            return
        if is_left:
            self._loop.add_writer(self._socket, self._flush)
        else:
            self._loop.remove_writer(self._socket)
        self._is_unsent = bool(is_left)

    def _readable(self) -> None:
        if self._connection is None:
            return
        try:
            self._read(self._connection.pgconn)
        except psycopg.Error as error:
            self._lose(error)

    def _read(self, pgconn: "pq.abc.PGconn") -> None:
        pgconn.consume_input()
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:  # The statement is done.
                then, self._then = self._then, self._nothing
                then()
                return
            if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
                raise psycopg.errors.error_from_result(result)
            self._result = result

    def _nothing(self) -> None:
        """Follows a notice or the end of a result when no statement is on its way."""

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._has_warning = True

    def _locked(self) -> None:
        """Goes on. If another session has the lock, the next record tries again."""
        self._has_lock = True
        is_taken = self._result is not None and self._result.get_value(0, 0) == b"t"
        self._step()
        self._has_lock = is_taken

    def _begin_segment(self) -> None:
        self._segment = Segment(self._segment.number + 1, 0)
        self._is_prepared = False
        self._step()

    def _prepared(self) -> None:
        self._is_prepared = True
        self._step()

    def _inserted(self) -> None:
        """Lets the record land, or asks the log if the answer is not clear.

        With a warning, the record may be durable on one server only.
        """
        if self._result is not None and self._result.command_tuples and not self._has_warning:
            self._appended()
        else:
            self._drop()
            self._ask_after(self._next_retry_s())

    def _appended(self) -> None:
        record, self._record = self._record, None
        assert record is not None, "a result without a record"
        self._last = record.number
        number, content_bytes = self._segment
        self._segment = Segment(number, content_bytes + ROW_BYTES + len(record.content))
        self._retry_s, self._sent_s = 0.0, None
        self._answers_again()
        self._landed(None)

    # -- a connection that was lost, or an answer that is unclear

    def _lose(self, error: psycopg.Error) -> None:
        self._drop()
        self._ask_later(str(explained(error)))

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._then, self._is_unsent = self._nothing, False
        with suppress(psycopg.Error):
            connection.close()

    def _ask_later(self, trouble: str) -> None:
        if self._away_s is None:
            self._away_s = time.monotonic()
            log.warning("the journal waits for its server", why=trouble)
        self.trouble = trouble
        self._ask_after(self._next_retry_s())

    def _next_retry_s(self) -> float:
        """Returns the time to wait now. The next one is longer."""
        wait_s = self._retry_s
        self._retry_s = min(max(self._retry_s * 2, RETRY_MIN_S), RETRY_MAX_S)
        return wait_s

    def _ask_after(self, wait_s: float) -> None:
        if wait_s:
            self._ask_s = time.monotonic() + wait_s
            self._loop.call_later(wait_s, self._ask)
        else:
            self._ask()

    def _ask(self) -> None:
        """Asks the log about the record, on another thread."""
        if self._is_closed or self._connection is not None or self._question is not None:
            return
        doubt = Doubt(
            self._place, self._epoch, self._session, self._segment.number, self._last, self._record
        )
        self._is_unchecked = self._record is None and not self._last
        self._question = Future()
        self._question.add_done_callback(self._report)
        # The process can end while a server that hangs does not answer.
        asking = Thread(target=_answer, args=(self._question, self._url, doubt), daemon=True)
        asking.start()

    def _report(self, question: "Future[tuple[psycopg.Connection, bool]]") -> None:
        """Passes the answer to the thread of the event loop. Called on the other thread."""
        try:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(self._answered, question)
                return
        except RuntimeError:  # The event loop has ended.
            pass
        _discard(question)

    def _wait_for_socket(self, left_s: float) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._is_unsent else 0))
        if poll.poll(left_s * 1000):
            self._flush()
            self._readable()

    def _wait_for_answer(self, left_s: float) -> None:
        if self._question is None:
            time.sleep(max(min(left_s, self._ask_s - time.monotonic()), 0))
            self._ask()
        if self._question is not None:
            with suppress(Exception):  # It is handled below.
                self._question.result(left_s)
            self._answered(self._question)

    def _answered(self, question: "Future[tuple[psycopg.Connection, bool]]") -> None:
        if question is not self._question or not question.done():
            return
        self._question = None
        if self._is_closed:
            _discard(question)
            return
        try:
            connection, has_record = question.result()
        except (ServerAway, ServerUnusable) as error:
            self._ask_later(str(error))
        except StoreFailed as error:
            self._fail(error)
        except Exception as error:  # Nobody else would notice a bug on the other thread.
            self._fail(StoreFailed(f"the log cannot be asked: {type(error).__name__}: {error}"))
        else:
            self._go_on(connection, has_record=has_record)

    def _go_on(self, connection: psycopg.Connection, *, has_record: bool) -> None:
        self._use(connection)
        if has_record:
            self._appended()
        elif self._record is not None:
            self._step()  # A server that answers may still refuse the record.
        else:
            self._answers_again()

    def _answers_again(self) -> None:
        if self._away_s is not None:
            log.info("the server of the journal answers again", away_s=round(self.away_s, 1))
        self._away_s, self.trouble = None, ""

    def _fail(self, error: StoreFailed) -> None:
        """Reports an error after which no record can be appended."""
        self.close()
        self._record = None
        self._landed(error)


def _answer(question: "Future[tuple[psycopg.Connection, bool]]", url: str, doubt: Doubt) -> None:
    try:
        question.set_result(ask(url, doubt))
    except BaseException as error:
        question.set_exception(error)


def _discard(question: "Future[tuple[psycopg.Connection, bool]]") -> None:
    """Ends the session of an answer that nobody waits for."""
    with suppress(Exception):  # An answer without a session has nothing to end.
        connection, _ = question.result()
        connection.close()
