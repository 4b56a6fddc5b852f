"""Puts over numbered streams: those of producers and those of links that lead here."""

from collections.abc import Sequence
from dataclasses import replace

from qmgr_protocol import messages as m
from qmgr_protocol.errors import (
    ErrorCode,
    FieldInvalid,
    RemoteProtocolError,
    RequestError,
)
from qmgr_protocol.window import Inbox
from qmgrd.core import keys, link_inbox, overflow, producer
from qmgrd.core import put as puts
from qmgrd.core import row as rows
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.dead_letters import DeadLetters
from qmgrd.core.jobs import Jobs
from qmgrd.core.link_inbox import LinkInbox
from qmgrd.core.producer import Producer
from qmgrd.core.queue import Queue
from qmgrd.core.refusals import shortened
from qmgrd.core.session import Answers, Session
from qmgrd.core.undeliverable import Undeliverable
from qmgrd.core.units import Units


class StreamUnknown(RemoteProtocolError):
    """A put on a stream that this connection did not open."""

    code = ErrorCode.STREAM_UNKNOWN

    def __init__(self, stream: int) -> None:
        super().__init__(f"stream {stream} is not open on this connection")


class StreamFenced(RemoteProtocolError):
    """A stream that a newer connection has: the older one is closed."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__("a newer connection took over this stream")
        self.code = code


class Streams:
    """Everything that numbers its puts.

    Invariant: a producer or a link's stream is open on one connection at most; the newest has it.
    """

    def __init__(
        self, context: Context, catalogue: Catalogue, jobs: Jobs, units: Units,
        dead_letters: DeadLetters,
    ) -> None:  # fmt: skip
        self._context = context
        self._units = units
        self._dead_letters = dead_letters
        self._undeliverable = Undeliverable(context, dead_letters)
        self._catalogue = catalogue
        self._jobs = jobs
        self._holders: dict[bytes, Session] = {}  # producer id or stream id
        self._dirty: dict[bytes, Producer | LinkInbox] = {}  # by key of the row
        self._moved: dict[tuple[int, int], LinkInbox] = {}  # connection and stream, in this turn
        self.producer_count = 0

    def open_producer(self, session: Session, message: m.ProducerOpen) -> None:
        """Answer with the stream's number and how far it got; fence whoever had it."""
        if len(message.producer_id) != 16:
            raise FieldInvalid("ProducerOpen", "producer_id", "is not 16 bytes")
        session.check_streams()
        found = self._dirty.get(keys.SPACE_PRODUCER + message.producer_id)
        if not isinstance(found, Producer):
            self._make_room(message)
            found = producer.open_producer(
                self._context, message.producer_id, message.resume, self.producer_count
            )
        if message.resume and message.instance != found.instance:
            raise RequestError(
                ErrorCode.PRODUCER_UNKNOWN,
                f"producer {message.producer_id.hex()} was opened by another program since, or "
                "this store was put back to an earlier state: its ids may be other puts",
            )
        self._fence(message.producer_id, session, ErrorCode.PRODUCER_FENCED)
        found.instance = message.instance
        if self._context.tx.get(found.key) is None and found.key not in self._dirty:
            self.producer_count += 1
        found.used_ms = self._context.now.ms
        self._dirty[found.key] = found
        self._jobs.producers_in_use[message.producer_id] = session.connection
        stream = session.add_stream(found)
        inbox = found.inbox
        answers = found.answers(1, inbox.commit_id + inbox.window)
        value = [stream, inbox.commit_id, sorted(inbox.ahead), answers]
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def _make_room(self, message: m.ProducerOpen) -> None:
        """Where no more producers can be kept, forget one that is idle for a new one."""
        context = self._context
        if self.producer_count < context.config.producer.producers_max or message.resume:
            return
        known = context.tx.get(keys.SPACE_PRODUCER + message.producer_id) is not None
        if not known and producer.evict(context, message.producer_id, self._jobs.producers_in_use):
            self.producer_count -= 1

    def open_link(self, session: Session, message: m.LinkOpen) -> None:
        """Answer a link's sender with what is held of its stream; fence an older connection."""
        if message.stream_id[:16] != session.store_id or len(session.store_id) != 16:
            raise FieldInvalid("LinkOpen", "stream_id", "does not start with the hello's store id")
        session.check_streams()
        verb = "start {} --accept" if session.name in self._catalogue.links else "delete {}"
        remedy = f"qmctl link {verb.format(session.name)}"
        link_inbox.pin_peer(self._context, session.name, session.store_id, remedy)
        window = self._context.config.link.window_messages
        key = keys.SPACE_LINK_INBOX + message.stream_id
        found = self._dirty.get(key) or link_inbox.load(self._context.tx, message.stream_id, window)
        self._fence(message.stream_id, session, ErrorCode.LINK_FENCED)
        if isinstance(found, LinkInbox):
            found = replace(found, timer_set=False)  # That timer tells the older connection.
        else:
            inbox = Inbox(window, message.base_id - 1)
            found = LinkInbox(message.stream_id, session.name, inbox, inbox.commit_id)
        stream = session.add_stream(found)
        value = found.opened(stream, window)
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def ask_commit(self, session: Session, message: m.CommitAsk) -> None:
        """Have a link's sender be told what is held at the end of this turn."""
        stream = session.streams.get(message.stream)
        if not isinstance(stream, LinkInbox):
            raise StreamUnknown(message.stream)
        stream.is_asked = True
        self._moved[session.connection, message.stream] = stream

    def tell(self, session: Session) -> None:
        """Tell the senders of links on a connection what is held of theirs, as it is closed."""
        for number, stream in session.streams.items():
            if isinstance(stream, LinkInbox) and stream.count > stream.told:
                self._context.send(session.connection, stream.tell(number))

    def _fence(self, identity: bytes, session: Session, code: ErrorCode) -> None:
        """Give a stream to *session*, and close the connection that had it.

        Raises:
            StreamFenced: a newer connection has it; what comes now was long under way.
        """
        older = self._holders.get(identity)
        if older is not None and older.connection > session.connection:
            raise StreamFenced(code)
        self._holders[identity] = session
        if older is None:
            return
        older.streams = {
            number: stream
            for number, stream in older.streams.items()
            if stream.identity != identity
        }
        if older is not session:
            self._context.close(older.connection, code, str(StreamFenced(code)))

    def put(self, session: Session, message: m.Put) -> None:
        """Store the records, or refuse them one by one; the answer goes out with the turn."""
        stream = session.streams.get(message.stream)
        if stream is None:
            raise StreamUnknown(message.stream)
        if isinstance(stream, Producer):
            self._put_of_producer(session, stream, message)
        else:
            self._put_of_link(session, stream, message)
        self._dirty[stream.key] = stream

    def _put_of_producer(self, session: Session, sender: Producer, put: m.Put) -> None:
        count = len(put.records)
        sender.note_seen(put.seen)
        sender.check(put.first_id, count)
        answers = self._answers(session, put.stream)
        last_id = put.first_id + count - 1
        fresh: Sequence[int] = sender.inbox.missing(put.first_id, count)
        batch = put.records
        if len(fresh) < count:
            answers.refused += sender.answers(put.first_id, last_id)
            batch = [put.records[seq_id - put.first_id] for seq_id in fresh]
        if not batch:
            return
        for index, error in self._store(put.queue, batch, answers, fresh):
            sender.refused[fresh[index]] = error.code
            answers.refused.append([fresh[index], int(error.code), error.text])
        sender.inbox.receive_all(fresh)
        sender.used_ms = self._context.now.ms

    def _answers(self, session: Session, stream: int) -> Answers:
        """Return what that stream is answered at the end of the turn."""
        answers = session.answers.get(stream)
        if answers is None:
            answers = session.answers[stream] = Answers()
            self._context.answering[session.connection] = session
        return answers

    def commit(self, session: Session, message: m.UnitCommit) -> None:
        """Commit a unit of work, numbered like a put: sent again, it is answered as at first."""
        sender = session.streams.get(message.stream)
        if not isinstance(sender, Producer):
            raise StreamUnknown(message.stream)
        seq_id = message.seq_id
        sender.note_seen(message.seen)
        sender.check(seq_id, 1)
        answers = self._answers(session, message.stream)
        self._dirty[sender.key] = sender
        sender.used_ms = self._context.now.ms
        if not sender.inbox.missing(seq_id, 1):
            answers.refused += sender.answers(seq_id, seq_id)
            return
        try:
            self._units.commit(session, message)
        except RequestError as error:
            sender.refused[seq_id] = error.code
            answers.refused.append([seq_id, int(error.code), error.text])
        sender.inbox.receive_all([seq_id])

    def _store(
        self, name: str, batch: list[bytes], answers: Answers, ids: Sequence[int]
    ) -> list[tuple[int, RequestError]]:
        """Put *batch* on the queue of that name; return which records were refused, and why."""
        context = self._context
        try:
            queue, target = self._catalogue.destination(name)
            context.reserve(batch)
        except RequestError as error:
            self._count_refused(name, error, len(batch))
            return [(index, error) for index in range(len(batch))]
        done = overflow.put(context, self._dead_letters, queue, batch, target)
        self._tell_full(queue, done.refused, len(batch))
        context.rows += done.rows
        context.touch(queue)
        for index, timestamp, count in done.stamped:
            if ids[index + count - 1] == ids[index] + count - 1:
                puts.add_stamps(answers.stamped, ids[index], timestamp, count)
                continue
            for offset in range(count):  # The ids have holes, the stamps have none.
                puts.add_stamps(answers.stamped, ids[index + offset], timestamp + offset, 1)
        return done.refused

    def _tell_full(self, queue: Queue, refused: list[tuple[int, RequestError]], count: int) -> None:
        """Have operators know of a queue that is full, once until there is room again."""
        is_full = any(
            error.code in (ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_BYTES_FULL) for _, error in refused
        )
        if is_full and not queue.told_full:
            self._context.event("queue full", queue=queue.name)
        if is_full or len(refused) < count:
            queue.told_full = is_full

    def _count_refused(self, name: str, error: RequestError, count: int) -> None:
        """Count puts that are refused before their queue has seen them, though it is there."""
        if error.code in (ErrorCode.PUT_INHIBITED, ErrorCode.STORE_FULL):
            queue = self._catalogue.keeper(name)
            queue.counters.refused += count
            self._context.dirty_queues[queue.id] = queue

    def _put_of_link(self, session: Session, stream: LinkInbox, put: m.Put) -> None:
        context = self._context
        self._moved[session.connection, put.stream] = stream
        if not put.queue:
            stream.skip(put)
            self._undeliverable.forget_held(stream)
            return
        refused = self._receive(stream, put)
        held_back = self._undeliverable.refuse(stream, put, refused) if refused else None
        if held_back:
            context.send(session.connection, link_inbox.blocked(put.stream, *held_back))
        self._undeliverable.forget_held(stream)

    def _receive(self, stream: LinkInbox, put: m.Put) -> list[tuple[int, RequestError]]:
        """Store what of a link's *put* is new; return which ids were refused, and why."""
        context, count = self._context, len(put.records)
        try:
            link_inbox.check_stamped(put)
            queue, target = self._catalogue.destination(put.queue)
            if target:
                raise RequestError(ErrorCode.QUEUE_IS_REMOTE, f"{put.queue} is a remote queue here")
            context.reserve(put.records)
            done = stream.receive(context, self._dead_letters, queue, put)
        except RequestError as error:
            self._count_refused(put.queue, error, count)
            stream.inbox.check(put.first_id + count - 1)
            return [(seq_id, error) for seq_id in stream.inbox.missing(put.first_id, count)]
        self._tell_full(queue, done.refused, count)
        context.rows += done.rows
        context.touch(queue)
        return done.refused

    def end_turn(self, sessions: dict[int, Session]) -> None:
        """Write the rows of all that moved, and answer it."""
        for key, stream in self._dirty.items():
            rows.put(self._context.tx, key, stream.encode())
            self._context.wrote = True
            if stream.identity not in self._holders:  # Closed in this turn; now its row is young.
                self._jobs.producers_in_use.pop(stream.identity, None)
        self._dirty.clear()
        for (connection, number), inbox in self._moved.items():
            commit = inbox.due(self._context, connection, number)
            if commit is not None and connection in sessions:
                self._context.send(connection, commit)
        self._moved.clear()

    def answer(self, session: Session) -> None:
        """Answer the puts of *session* in this turn: one message for each stream."""
        for number, answers in session.answers.items():
            stream = session.streams.get(number)
            if stream is not None:
                commit_id = stream.inbox.commit_id
                refused = shortened(answers.refused)
                committed = m.Committed(number, commit_id, refused, answers.stamped)
                self._context.send(session.connection, committed)
        session.answers.clear()

    def close(self, session: Session) -> None:
        """Let go of the streams of a connection that is gone."""
        for identity in [i for i, holder in self._holders.items() if holder is session]:
            del self._holders[identity]
            if keys.SPACE_PRODUCER + identity not in self._dirty:
                self._jobs.producers_in_use.pop(identity, None)

    def inbound(self, rows_max: int) -> tuple[list[dict[str, object]], int]:
        """Return up to *rows_max* links that lead here and are connected, and their number."""
        sessions = {session.connection: session for session in self._holders.values()}
        found = [
            stream
            for session in sessions.values()
            for stream in session.streams.values()
            if isinstance(stream, LinkInbox)
        ]
        rows: list[dict[str, object]] = [
            {
                "peer": stream.peer,
                "stream": stream.stream_id.hex(),
                "commit_id": stream.inbox.commit_id,
                "ahead": len(stream.inbox.ahead),
                "duplicates": stream.duplicates,
            }
            | self._undeliverable.describe(stream.stream_id)
            for stream in found[:rows_max]
        ]
        return rows, len(found)
