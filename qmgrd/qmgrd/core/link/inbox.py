"""The receiving end of a link (US 6,401,136 B1, claim 1; triggers, checks and refusals are ours).

A message is stored and available as soon as it arrives, in any order. The receiver reports two
values to the sender: the commit id, which is the end of the consecutive run, and the ids held above
it. The report is sent after ``commit_messages`` messages, after ``commit_bytes``,
``commit_interval_ms`` after the first message, on request, and when the connection closes. A put in
the other direction over the same connection also carries the report. The next message then starts
the interval again, so busy traffic in both directions needs no separate commits.

The window row is written in the same turn as the messages that it covers. The row outlives the
messages, because a message may be consumed before its commit id is reported. A restored sender
assigns ids that it has already used to other messages. Therefore, the window keeps the UID of the
highest id held, and the sender's life in which that id arrived. These values show whether the two
ends belong together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError, class_of
from qmgr_protocol.record import HEAD_BYTES
from qmgr_protocol.window import Inbox, runs_of
from qmgrd.core.context.context import Context
from qmgrd.core.context.eviction import MakeDeadLetter
from qmgrd.core.context.put_records import put_records
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.value_checks import number, stored_ids, typed
from qmgrd.core.link.path import PeerSession
from qmgrd.core.link.puts import size_of
from qmgrd.core.queue.put import PutOutcome
from qmgrd.core.queue.queue import Queue

BLOCKED_RETRY_MS = 1_000
LINE_RETRY_MS = 100


@dataclass(slots=True)
class LinkInbox:
    """The stream of a link: its stored window, and, in memory, its paths and its line.

    Invariant: ``paths`` contains the open connections. Puts ``in_line`` belong to an ordered stream
        and follow a gap. They are neither stored nor reported as held.
    """

    stream_id: bytes
    peer: str
    inbox: Inbox
    highest_id: int = 0  # the highest id that was ever held
    # The encoded UID of the message with the highest id, if it has one.
    highest_uid: bytes | None = None
    highest_life: bytes = b""  # the life of the sender in which the highest id arrived
    duplicates: int = 0  # the number of duplicates discarded since the stream was opened
    # The number of messages that were lost when this store was restored to an older state.
    lost: int = 0
    # The wall clock time, in microseconds, at which the last loss was found.
    lost_us: int | None = None
    life: bytes = b""  # the current life of the sender
    incarnation: int = 0  # the number of this object, as reported to the sender
    is_ordered: bool = False
    paths: dict[int, "InboundPath"] = field(default_factory=dict)  # paths by path number
    in_line: dict[int, m.Put] = field(default_factory=dict)  # puts in the line, by first id
    in_line_bytes: int = 0
    is_draining: bool = False  # whether the next turn continues with the line

    @property
    def key(self) -> bytes:
        """The key of the stored row."""
        return keys.SPACE_LINK_INBOX + self.stream_id

    def encode(self) -> bytes:
        """Returns the row to store."""
        inbox = self.inbox
        row: bytes = pack(
            [
                self.peer,
                inbox.commit_id,
                runs_of(inbox.ahead),
                self.highest_uid,
                self.highest_life,
                self.lost,
                self.lost_us,
            ]
        )
        return row

    def opened(self, stream: int, window: int, lost: int = 0) -> list[object]:
        """Returns the value for the reply to a LinkOpen."""
        commit_id, ahead = self.inbox.commit_id, sorted(self.inbox.ahead)
        return [
            stream,
            commit_id,
            ahead,
            self.highest_uid,
            window,
            self.incarnation,
            lost,
            self.highest_life,
        ]

    def begin_at(self, lowest_id: int) -> int:
        """Marks all ids below *lowest_id* as held. Returns how many were not held before."""
        lost = self.inbox.begin_at(lowest_id)
        if self.highest_id < self.inbox.commit_id:
            self.highest_id, self.highest_uid = self.inbox.commit_id, None
            self.highest_life = b""
        return lost

    def hold_behind_gap(self, put: m.Put, bytes_max: int) -> None:
        """Keeps *put* in memory until the gap before it is closed.

        Raises:
            WindowExceeded: The put is outside the window and is not kept.
            RequestError: LINK_LINE_FULL if the line would exceed *bytes_max*.
        """
        if not put.records:
            return  # Nothing has to be stored after the gap.
        self.inbox.check(put.first_id + len(put.records) - 1)
        known = self.in_line.get(put.first_id)
        if known is not None and len(known.records) >= len(put.records):
            return
        size = _line_bytes(put) - (_line_bytes(known) if known else 0)
        if self.in_line_bytes + size > bytes_max:
            raise RequestError(
                ErrorCode.LINK_LINE_FULL,
                f"{self.in_line_bytes} bytes wait for id {self.inbox.commit_id + 1}, and {size} "
                f"more would exceed link.window_bytes ({bytes_max})",
                LINE_RETRY_MS,
            )
        self.in_line_bytes += size
        self.in_line[put.first_id] = put

    def next_in_line(self) -> m.Put | None:
        """Removes and returns the next put that does not follow a gap, or None."""
        gap = self.inbox.commit_id + 1
        if gap not in self.in_line:
            gap = min(self.in_line, default=gap + 1)  # Puts that were sent again may overlap.
        if gap > self.inbox.commit_id + 1:
            return None
        put = self.in_line.pop(gap)
        self.in_line_bytes -= _line_bytes(put)
        return put

    def clear_line(self) -> None:
        """Discards the puts in the line. The sender sends them again."""
        self.in_line.clear()
        self.in_line_bytes = 0
        self.is_draining = False

    def receive(
        self,
        context: Context,
        make_dead_letter: MakeDeadLetter,
        queue: Queue,
        put: m.Put,
        target: str = "",
    ) -> PutOutcome:
        """Stores the new records of *put*, and returns the result for each record.

        Args:
            context: The context of the current turn.
            make_dead_letter: The function that makes dead letters of evicted messages.
            queue: The queue that stores the records.
            put: The put as it arrived.
            target: The destination behind a transmission queue, or "".

        Raises:
            WindowExceeded: The put is outside the window. Nothing is stored.
        """
        count = len(put.records)
        self.inbox.check(put.first_id + count - 1)
        ids = self.inbox.missing(put.first_id, count)
        self.duplicates += count - len(ids)
        batch = put.records
        if len(ids) < count:
            batch = [put.records[seq_id - put.first_id] for seq_id in ids]
        extras = {}
        if put.extras:
            given = {put.first_id + index: extra for index, extra in put.extras}
            extras = {at: given[seq_id] for at, seq_id in enumerate(ids) if seq_id in given}
        done = put_records(context, make_dead_letter, queue, batch, target, extras)
        kept_out = {
            index: error
            for index, error in done.refused
            # The message is already stored, because it also arrived by another route.
            if error.code != ErrorCode.DUPLICATE_MESSAGE
        }
        self.duplicates += len(done.refused) - len(kept_out)
        refused = [(ids[index], error) for index, error in kept_out.items()]
        if kept_out:
            ids = [seq_id for index, seq_id in enumerate(ids) if index not in kept_out]
        if ids:
            self.mark_held(ids, put.records[ids[-1] - put.first_id])
        return PutOutcome(refused, [])

    def skip(self, put: m.Put) -> None:
        """Marks the ids of *put* as held, because the sender no longer has their messages.

        Raises:
            WindowExceeded: The put is outside the window. Nothing is marked.
        """
        self.inbox.check(put.first_id + len(put.records) - 1)
        if ids := self.inbox.missing(put.first_id, len(put.records)):
            self.mark_held(ids, None)

    def mark_held(self, ids: Sequence[int], last: bytes | None) -> None:
        """Marks ids in ascending order as held. *last* is the record of the last one, or None."""
        self.inbox.receive_all(ids)
        if ids[-1] > self.highest_id:
            uid = None if last is None else records.trailer_of(last)
            self.highest_id, self.highest_uid, self.highest_life = ids[-1], uid, self.life


@dataclass(slots=True, eq=False)
class InboundPath:
    """One path of a stream: the records received over it and the reports to the sender."""

    stream: LinkInbox
    session: PeerSession
    path: int
    number: int = 0  # the number of the stream on this connection
    taken: int = 0  # the number of records received, stored or not
    news: int = 0  # the number of received records that are not yet reported to the sender
    news_bytes: int = 0
    is_asked: bool = False  # whether the sender has asked for a commit in this turn
    _since_ms: int | None = None  # the arrival time of the first unreported record
    _timer_set: bool = False

    def take(self, put: m.Put) -> None:
        """Counts the records of *put*."""
        self.taken += len(put.records)
        self.news += len(put.records)
        self.news_bytes += size_of(put)

    def due(self, context: Context) -> m.Committed | None:
        """Returns the commit message to send now, or None.

        If the commit can wait, sets a timer for it.
        """
        limits = context.config.link
        is_much = self.news >= limits.commit_messages or self.news_bytes >= limits.commit_bytes
        back = self.session.path  # A put in the other direction carries the commit.
        is_carried = back is not None and back.sent_turn == context.turns
        if self.is_asked or (self.news and (is_much or is_carried)):
            return self.commit_message()
        if self.news:
            self._schedule_commit(context)
        else:
            self._since_ms = None  # A Blocked message has already reported everything.
        return None

    def _schedule_commit(self, context: Context) -> None:
        """Schedules a separate commit, unless a put carries one first."""
        if self._since_ms is None:
            self._since_ms = context.now.ms
        if not self._timer_set:
            self._timer_set = True
            due_ms = self._since_ms + context.config.link.commit_interval_ms
            context.timers.at(due_ms, lambda: self._send_commit(context))

    def commit_message(self) -> m.Committed:
        """Returns the commit message, even if the same state was already reported."""
        self.news, self.news_bytes, self.is_asked, self._since_ms = 0, 0, False, None
        inbox = self.stream.inbox
        runs = runs_of(inbox.ahead)[: m.HELD_RUNS_MAX]
        return m.Committed(self.number, inbox.commit_id, held=runs, taken=self.taken)

    def _send_commit(self, context: Context) -> None:
        self._timer_set = False
        is_open = self.stream.paths.get(self.path) is self
        if self._since_ms is None or not is_open or not self.news or self.stream.is_draining:
            return
        if context.now.ms < self._since_ms + context.config.link.commit_interval_ms:
            self._schedule_commit(context)  # A put has carried the commit since the timer was set.
        else:
            context.send(self.session.connection, self.commit_message())


def load(tx: Transaction, stream_id: bytes, window: int) -> LinkInbox | None:
    """Returns the stored window of the stream *stream_id*, or None.

    Raises:
        RowDamaged: The row is damaged.
    """
    row = rows.find(tx, keys.SPACE_LINK_INBOX + stream_id)
    if row is None:
        return None
    with rows.decoding(keys.SPACE_LINK_INBOX + stream_id):
        peer, commit_id, runs, uid, *more = unpack(row)
        life, lost, lost_us = [*more, *(b"", 0, None)[len(more) :]][:3]
        typed(str, peer, "the peer")
        typed(bytes, b"" if uid is None else uid, "the highest UID")
        typed(bytes, life, "the life of the sender")
        for value in (commit_id, lost, lost_us or 0):
            number(value, "a number in the window")
        ahead = stored_ids(runs)
    return LinkInbox(
        stream_id,
        peer,
        Inbox(window, commit_id, ahead),
        max(ahead, default=commit_id),
        uid,
        life,
        lost=lost,
        lost_us=lost_us,
    )


def unstamped(put: m.Put) -> RequestError | None:
    """Returns an error if a record has no UID.

    A link only moves messages. It does not create any.
    """
    if all(
        len(record) >= HEAD_BYTES and record[records.ORIGIN_LENGTH_AT] for record in put.records
    ):
        return None
    return RequestError(ErrorCode.RECORD_MALFORMED, "a record without a UID came over a link")


def _line_bytes(put: m.Put) -> int:
    """Returns the approximate memory that *put* needs in the line, including its empty records."""
    return size_of(put) + 64 * len(put.records)


def blocked(inbound_path: InboundPath, seq_id: int, error: RequestError, count: int) -> m.Blocked:
    """Returns the message that reports to the sender the reason why an id cannot be stored now.

    Args:
        count: The number of records that this report covers.
    """
    inbound_path.news -= count
    known_class = class_of(error.code)
    retry_ms = BLOCKED_RETRY_MS if known_class is ErrorClass.RETRY_LATER else 10_000
    wait_ms = error.retry_after_ms or retry_ms
    return m.Blocked(
        inbound_path.number, seq_id, error.code, wait_ms, error.text, inbound_path.taken
    )
