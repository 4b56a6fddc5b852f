"""Accepts the numbered puts of producers. Passes puts of links to link_streams.py."""

from collections.abc import Iterator, Sequence

from qmgr_protocol import messages as m
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RemoteProtocolError, RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context import producer
from qmgrd.core.context.context import Context
from qmgrd.core.context.producer import Producer
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.puts import client_rights
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.sessions.incoming_bodies import IncomingBodies, always, requests_report, use_up
from qmgrd.core.sessions.link_streams import LinkStreams
from qmgrd.core.sessions.producer_owners import ProducerOwners
from qmgrd.core.sessions.producer_puts import ProducerPuts
from qmgrd.core.sessions.refusal_rows import shortened
from qmgrd.core.sessions.request_part import Arrived
from qmgrd.core.sessions.session import Session, StreamAnswers, StreamFenced, StreamUnknown
from qmgrd.core.sessions.units import Units

# Size in bytes above which the row of a producer must not grow while the store is full.
ROW_WHEN_FULL_BYTES = 4_000
# Number of refused ids whose encoding takes as long as one row of the store.
REFUSED_PER_ROW = 10


class Streams:
    """The open producers, and the streams of links.

    Invariant: a producer is open on at most one connection, the latest one that opened it.
    """

    def __init__(
        self,
        context: Context,
        catalogue: Catalogue,
        jobs: Jobs,
        units: Units,
        dead_letters: DeadLetters,
        answering: dict[int, Session],
    ) -> None:
        self._context = context
        self._units = units
        self._answering = answering
        self._dead_letters = dead_letters
        self._catalogue = catalogue
        self._jobs = jobs
        self.links = LinkStreams(context, catalogue, dead_letters)
        self.puts = ProducerPuts(context, catalogue, dead_letters)
        # The connection that holds each producer, by producer id.
        self._holders: dict[bytes, Session] = {}
        self._dirty: dict[bytes, Producer] = {}  # changed producers, by row key
        self.producer_count = 0
        self.owners = ProducerOwners(context)

    def load(self, producer_count: int, *, has_users: bool) -> None:
        """Sets the number of stored producers. Reads their users if there are users."""
        self.producer_count = producer_count
        if has_users:
            self.owners.load()

    def open_producer(self, session: Session, message: m.ProducerOpen) -> None:
        """Sends the number and position of the stream.

        Closes the earlier connection of the stream.
        """
        if len(message.producer_id) != 16:
            raise FieldInvalid("ProducerOpen", "producer_id", "is not 16 bytes")
        session.check_streams()
        found = self._dirty.get(keys.SPACE_PRODUCER + message.producer_id)
        if found is None:
            self._make_room(session, message)
            found = producer.open_producer(
                self._context, message.producer_id, message.resume, self.producer_count
            )
        self._check_owner(session, found, message)
        if message.resume and message.instance != found.instance:
            raise RequestError(
                ErrorCode.PRODUCER_UNKNOWN,
                f"producer {message.producer_id.hex()}: another program has opened it since, or "
                "this "
                "store was restored to an earlier state, so its ids may belong to other puts",
            )
        self._check_unseen(session, found)
        if message.producer_id not in self._holders:  # Otherwise, the stream only moves.
            session.check_user_streams()
        self._fence(message.producer_id, session)
        found.instance = message.instance
        if not self.knows(message.producer_id):
            self.producer_count += 1
        if found.user:
            self.owners.used(message.producer_id, found.user)
        found.used_ms = self._context.now.ms
        self._dirty[found.key] = found
        self._jobs.producers_in_use[message.producer_id] = session.connection
        stream = session.add_stream(found)
        inbox = found.inbox
        end = inbox.commit_id + inbox.window
        answers = found.answers(1, end)
        value = [stream, inbox.commit_id, sorted(inbox.ahead), answers, found.stamps_of(1, end)]
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def _check_unseen(self, session: Session, found: Producer) -> None:
        """Raises PRODUCERS_EXHAUSTED if *found* has too many refused ids for this connection.

        A single producer never reaches the limit, because it also limits the unseen ids of each
        stream.
        """
        others = session.unseen_refusals if found.refused else 0
        if others and others + len(found.refused) > self.puts.unseen_max:
            raise RequestError(
                ErrorCode.PRODUCERS_EXHAUSTED,
                f"the open producers of this connection have {amount(others, 'refused put')} that "
                f"are not marked as seen, and this one has {len(found.refused)} (the limit is "
                f"{self.puts.unseen_max}): put on the others first, with seen",
                1_000,
            )

    def _check_owner(self, session: Session, found: Producer, message: m.ProducerOpen) -> None:
        """Raises if the producer belongs to another user. A new producer belongs to its user.

        An administrator may take a producer that was created without a user. So may each user while
        rights are only reported, because it could not use the producer once they are enforced.
        """
        access = session.access
        if access is None or found.user == access.owner:
            return
        is_free = access.is_administrator or not session.is_enforced
        if not found.user and (is_free or not self.knows(message.producer_id)):
            found.user = access.owner
        elif not session.is_enforced:
            return
        elif message.resume:
            raise producer.unknown_error(self._context, message.producer_id)
        else:
            raise RequestError(
                ErrorCode.NOT_AUTHORIZED,
                f"producer {message.producer_id.hex()} does not belong to user {access.user}",
            )

    def knows(self, producer_id: bytes) -> bool:
        """Returns whether the store has a row for producer *producer_id*."""
        key = keys.SPACE_PRODUCER + producer_id
        return key in self._dirty or self._context.tx.get(key) is not None

    def _make_room(self, session: Session, message: m.ProducerOpen) -> None:
        """Forgets an idle producer if a new one would exceed a maximum number of producers.

        Raises:
            RequestError: USER_PRODUCERS_EXHAUSTED if none of the user's producers is idle.
        """
        context, access, in_use = self._context, session.access, self._jobs.producers_in_use
        if message.resume or self.knows(message.producer_id):
            return
        if access is not None and access.limits.producers_max:
            used = self.owners.count(access.owner)
            if used >= access.limits.producers_max and self._evict_of(access.owner):
                used -= 1
            access.check_use("producers_max", used)
        if self.producer_count >= context.config.producer.producers_max:
            gone = producer.evict(context, message.producer_id, in_use)
            if gone is not None:
                self.forget_producers([gone])

    def _evict_of(self, user: str) -> bool:
        """Forgets the longest unused producer of *user*. Returns whether one was idle."""
        if self.owners.evict(user, self._jobs.producers_in_use) is None:
            return False
        self.producer_count -= 1
        return True

    def forget_producers(self, gone: list[bytes]) -> None:
        """Counts the producers *gone*, whose rows were deleted."""
        self.producer_count -= len(gone)
        for producer_id in gone:
            self.owners.gone(producer_id)

    def _fence(self, producer_id: bytes, session: Session) -> None:
        """Assigns a producer to *session*, and closes the connection that had the producer.

        Raises:
            StreamFenced: A newer connection has the producer, so this request arrived late.
        """
        older = self._holders.get(producer_id)
        fenced = StreamFenced(ErrorCode.PRODUCER_FENCED)
        if older is not None and older.connection > session.connection:
            raise fenced
        self._holders[producer_id] = session
        if older is None:
            return
        older.streams = {
            number: stream
            for number, stream in older.streams.items()
            if not isinstance(stream, Producer) or stream.producer_id != producer_id
        }
        if older is not session:
            self._context.close(older.connection, fenced.code, str(fenced))

    def put(self, session: Session, message: m.Put) -> None:
        """Stores the records, or refuses them one by one.

        The reply is sent at the end of the turn.
        """
        stream = session.streams.get(message.stream)
        if stream is None:
            raise StreamUnknown(message.stream)
        if message.bodies or not isinstance(stream, Producer):
            self.puts.store_waiting()
        if message.bodies:
            incoming = session.incoming or IncomingBodies(session.connection)
            if isinstance(stream, Producer):
                named = incoming.named_in(self._context, message)
            else:
                is_held = stream.stream.is_ordered  # An ordered link holds messages above a gap.
                whole = always if is_held else requests_report
                named = incoming.named_in(self._context, message, whole)
            with named as put:
                self.put(session, put)
        elif isinstance(stream, Producer):
            self._put_of_producer(session, stream, message, None)
        else:
            self.links.put(stream, message)

    def piece(self, session: Session, message: m.Piece) -> None:
        """Stores a piece of a long record, which a later put names."""
        if session.incoming is None:
            session.incoming = IncomingBodies(session.owner or session.connection)
        session.incoming.receive(self._context, message)

    def refuse(self, session: Session, message: m.Put, error: RequestError) -> None:
        """Refuses all new records of a producer's put. Earlier ones are answered as before."""
        stream = session.streams.get(message.stream)
        if not isinstance(stream, Producer):
            raise StreamUnknown(message.stream)
        self._put_of_producer(session, stream, message, error)

    def use_up_bodies(self, session: Session, message: Arrived) -> None:
        """Uses up the bodies that a refused put names."""
        use_up(self._context, session, message)

    def _put_of_producer(
        self, session: Session, sender: Producer, put: m.Put, why: RequestError | None
    ) -> None:
        """Stores the new records of *put*, or refuses them if there is a reason *why*."""
        count, seen = len(put.records), sender.seen
        sender.note_seen(put.seen)
        is_marked = sender.seen != seen
        if is_marked:
            self._mark_changed(sender)
        sender.check(put.first_id, count)
        answers = self._answers(session, put.stream)
        fresh, batch = self._new_records(sender, put, answers)
        if not batch:
            return
        if not is_marked:
            self._mark_changed(sender)
        if why is not None:
            errors = dict.fromkeys(range(len(batch)), why)
        else:
            errors = client_rights.refusals(session.check_right, batch)
        self.puts.put(put.queue, session, sender, answers, fresh, batch, errors)
        sender.inbox.receive_all(fresh)
        sender.used_ms = self._context.now.ms
        self._end_if_exceeded(session)

    def _end_if_exceeded(self, session: Session) -> None:
        """Raises CreditExceeded if *session* has too many refused ids that are not marked as seen.

        The ids stay refused. The producer receives the refusals when it opens its stream again.
        """
        if (error := self.puts.exceeded.pop(session.connection, None)) is not None:
            raise error

    def _new_records(
        self, sender: Producer, put: m.Put, answers: StreamAnswers
    ) -> tuple[Sequence[int], list[bytes]]:
        """Returns the ids and records of *put* that are new. Answers the others as before."""
        count = len(put.records)
        fresh = sender.inbox.missing(put.first_id, count)
        if len(fresh) == count:
            return fresh, put.records
        self.puts.store_waiting()  # The first put of these ids may be among them.
        last_id = put.first_id + count - 1
        answers.refused += sender.answers(put.first_id, last_id)
        answers.stamped += sender.stamps_of(put.first_id, last_id)
        return fresh, [put.records[seq_id - put.first_id] for seq_id in fresh]

    def _mark_changed(self, sender: Producer) -> None:
        """Schedules a write of the producer's row at the end of this turn, and counts its cost."""
        if sender.key not in self._dirty:
            self._dirty[sender.key] = sender
            self._context.count_read(len(sender.refused) // REFUSED_PER_ROW, 0)

    def _answers(self, session: Session, stream: int) -> StreamAnswers:
        """Returns the replies that the stream receives at the end of the turn."""
        answers = session.answers.get(stream)
        if answers is None:
            answers = session.answers[stream] = StreamAnswers()
            self._answering[session.connection] = session
        return answers

    def commit(self, session: Session, message: m.UnitCommit) -> None:
        """Commits a unit of work. A commit is numbered like a put and can be repeated safely."""
        sender = session.streams.get(message.stream)
        if not isinstance(sender, Producer):
            raise StreamUnknown(message.stream)
        seq_id = message.seq_id
        sender.note_seen(message.seen)
        sender.check(seq_id, 1)
        answers = self._answers(session, message.stream)
        self._mark_changed(sender)
        sender.used_ms = self._context.now.ms
        if not sender.inbox.missing(seq_id, 1):
            answers.refused += sender.answers(seq_id, seq_id)
            return
        try:
            self._units.commit(session, message)
        except RequestError as error:
            self.puts.refuse(session, sender, answers, seq_id, error)
        sender.inbox.receive_all([seq_id])
        self._end_if_exceeded(session)

    def drain(self) -> Iterator[tuple[int, RemoteProtocolError]]:
        """Continues with work that earlier turns left, and yields connections to close."""
        exceeded, self.puts.exceeded = self.puts.exceeded, {}
        yield from exceeded.items()
        yield from self.links.drain()

    def end_turn(self) -> None:
        """Writes the rows of the streams that changed, and replies to their senders."""
        for key, stream in self._dirty.items():
            row = stream.encode()
            rows.put(self._context.tx, key, row)
            self._context.wrote = True
            if self._context.store_full and len(row) > ROW_WHEN_FULL_BYTES:
                self._close_connection_of(stream)
            # The producer was closed in this turn, and its row is new.
            if stream.producer_id not in self._holders:
                self._jobs.producers_in_use.pop(stream.producer_id, None)
        self._dirty.clear()
        self.links.end_turn()

    def _close_connection_of(self, sender: Producer) -> None:
        """Closes the connection of a producer whose row keeps growing.

        The producer receives its refusals when it opens the stream again. Its next put marks them
        as seen, and the row becomes short again.
        """
        holder = self._holders.get(sender.producer_id)
        if holder is not None and holder.answers:  # The producer has put messages in this turn.
            self._context.close(
                holder.connection,
                ErrorCode.CREDIT_EXCEEDED,
                f"the store is full, and {len(sender.refused)} refused puts are not marked as "
                "seen: open the producer again and read its refusals",
            )

    def answer(self, session: Session) -> None:
        """Replies to the puts of *session* in this turn, with one message per stream."""
        for number, answers in session.answers.items():
            stream = session.streams.get(number)
            if isinstance(stream, Producer):
                commit_id = stream.inbox.commit_id
                refused = shortened(answers.refused)
                committed = m.Committed(
                    number, commit_id, refused, answers.stamped, matched=answers.matched
                )
                self._context.send(session.connection, committed)
        session.answers.clear()

    def close(self, session: Session) -> None:
        """Frees the streams and the incomplete long records of a closed connection."""
        self.links.close(session)
        if session.incoming is not None:
            session.incoming.close(self._context)
        for stream in session.streams.values():
            if isinstance(stream, Producer) and self._holders.get(stream.producer_id) is session:
                del self._holders[stream.producer_id]
                if stream.key not in self._dirty:
                    self._jobs.producers_in_use.pop(stream.producer_id, None)
