"""Stores the records of producers, and notes the results for their answers.

A put costs ten times as much by itself as in a batch. Therefore, puts of one short record wait
until the turn reaches a request of another kind, or enough of them wait. They are then stored
together, queue by queue. The puts to one destination stay in order, and so do the puts of one
connection. All of this happens within one turn, so no answer is early. The time of storing them is
charged to their connections in equal parts.

No put waits if the store is nearly full, because all of the waiting puts must fit.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from qmgr_protocol.errors import RemoteProtocolError, RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context import committed
from qmgrd.core.context.context import PAGES_OF_A_PUT, Context
from qmgrd.core.context.producer import Producer
from qmgrd.core.puts import client_put
from qmgrd.core.puts.refusal_reports import count_refused
from qmgrd.core.queue.put import PutOutcome
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.sessions.session import Session, StreamAnswers

WAITING_MAX = 256
RECORD_MAX_BYTES = 4_096
# The room and the pages that all of the waiting puts may need (Context.reserve, count_fitting).
_ROOM_BYTES = WAITING_MAX * (2 * RECORD_MAX_BYTES + 256)
_PAGES = WAITING_MAX * PAGES_OF_A_PUT


class _Single(NamedTuple):
    """A put of one record."""

    session: Session
    sender: Producer
    answers: StreamAnswers
    seq_id: int
    record: bytes


class ProducerPuts:
    """The puts of producers in this turn.

    Invariant: between two turns, no put waits.
    """

    def __init__(self, context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
        self._context = context
        self._catalogue = catalogue
        self._dead_letters = dead_letters
        # The waiting puts by queue and destination behind a transmission queue.
        self._waiting: dict[tuple[int, str], tuple[Queue, list[_Single]]] = {}
        self._latest: dict[int, tuple[int, str]] = {}  # the queue of the last put by connection
        self._count = 0
        self.is_storing = False  # whether waiting puts of several connections are being stored
        self.joins_from_ms = 0  # the store clock time from which puts wait
        # Charges a time in nanoseconds to connections, in equal parts.
        self.charge: Callable[[Sequence[int], int], None] = lambda connections, ns: None
        self.unseen_max = 2 * context.config.limits.put_window_messages
        # Connections whose producers have too many refusals that are not marked as seen.
        self.exceeded: dict[int, RemoteProtocolError] = {}

    def put(
        self,
        name: str,
        session: Session,
        sender: Producer,
        answers: StreamAnswers,
        ids: Sequence[int],
        batch: list[bytes],
        errors: dict[int, RequestError],
    ) -> None:
        """Stores *batch* except records with *errors*, now or with the puts that wait.

        Args:
            name: The queue or topic.
            session: The connection of the producer.
            sender: The producer.
            answers: The answers to the producer.
            ids: The ids of the records.
            batch: The records.
            errors: The errors of records that are refused, by index.
        """
        refused = [(ids[index], error) for index, error in errors.items()]
        if errors:
            batch = [record for index, record in enumerate(batch) if index not in errors]
            ids = [seq_id for index, seq_id in enumerate(ids) if index not in errors]
        if batch:
            refused += self._put(name, session, sender, answers, ids, batch)
        for seq_id, error in refused:
            _refuse(sender, answers, seq_id, error)
        if refused:
            self._limit_unseen(session)

    def _put(
        self,
        name: str,
        session: Session,
        sender: Producer,
        answers: StreamAnswers,
        ids: Sequence[int],
        batch: list[bytes],
    ) -> list[tuple[int, RequestError]]:
        """Stores *batch*, now or later. Returns the ids and errors of records refused now."""
        try:
            queue, target = self._catalogue.destination(name)
        except RequestError as error:
            count_refused(self._context, self._catalogue, name, error, len(batch))
            return [(seq_id, error) for seq_id in ids]
        if len(batch) == 1 and self._may_wait(queue, batch[0]):
            self._wait(queue, target, _Single(session, sender, answers, ids[0], batch[0]))
            return []
        self.store_waiting()
        found = self._store(queue, target, batch, sender, answers, ids)
        return [(ids[index], error) for index, error in found]

    def refuse(
        self,
        session: Session,
        sender: Producer,
        answers: StreamAnswers,
        seq_id: int,
        error: RequestError,
    ) -> None:
        """Notes a refusal. Closes a connection with too many of them at the end of the turn.

        The ids stay refused. The producer receives the refusals when it opens its stream again.
        """
        _refuse(sender, answers, seq_id, error)
        self._limit_unseen(session)

    def _limit_unseen(self, session: Session) -> None:
        if (why := session.unseen_error(self.unseen_max)) is not None:
            self.exceeded[session.connection] = why

    def _may_wait(self, queue: Queue, record: bytes) -> bool:
        context = self._context
        return (
            len(record) <= RECORD_MAX_BYTES
            and context.now.ms >= self.joins_from_ms
            and context.room_bytes >= _ROOM_BYTES
            and context.put_pages >= _PAGES
            and not queue.is_publications
            and queue.bounds.overflow == "refuse"
        )

    def _wait(self, queue: Queue, target: str, single: _Single) -> None:
        key, connection = (queue.id, target), single.session.connection
        if self._latest.setdefault(connection, key) != key:
            self.store_waiting()  # The connection has put to another queue before.
            self._latest[connection] = key
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = queue, []
        waiting[1].append(single)
        self._count += 1
        if self._count >= min(WAITING_MAX, self._context.turn_rows // 4):
            self.store_waiting()

    def store_waiting(self) -> None:
        """Stores the puts that wait."""
        if not self._count:
            return
        clock_ns = self._context.budget.clock_ns
        self.is_storing, before_ns = True, clock_ns()
        for (_, target), (queue, singles) in self._waiting.items():
            self._store_together(queue, target, singles)
        self.charge(list(self._latest), clock_ns() - before_ns)
        self._waiting.clear()
        self._latest.clear()
        self._count, self.is_storing = 0, False

    def _store_together(self, queue: Queue, target: str, singles: list[_Single]) -> None:
        done = self._store_on(queue, target, [single.record for single in singles])
        for index, timestamp, count in done.stamped:
            for offset in range(count):
                _, sender, answers, seq_id, _ = singles[index + offset]
                committed.add_stamps(answers.stamped, seq_id, timestamp + offset, 1)
                if seq_id > sender.seen:
                    sender.note_stamps(seq_id, timestamp + offset, 1)
        sessions: dict[int, Session] = {}
        for index, error in done.refused:
            session, sender, answers, seq_id, _ = singles[index]
            _refuse(sender, answers, seq_id, error)
            sessions[session.connection] = session
        for session in sessions.values():
            self._limit_unseen(session)

    def _store(
        self,
        queue: Queue,
        target: str,
        batch: list[bytes],
        sender: Producer,
        answers: StreamAnswers,
        ids: Sequence[int],
    ) -> list[tuple[int, RequestError]]:
        """Puts *batch* of one producer on *queue*. Returns indexes and errors of refused records.

        Args:
            queue: The queue.
            target: The destination behind a transmission queue, or the topic.
            batch: The records.
            sender: The producer.
            answers: The answers to the producer.
            ids: The ids of the records.
        """
        done = self._store_on(queue, target, batch)
        if queue.is_publications and len(done.refused) < len(batch):
            self._tell_matches(answers, ids, target, done.refused)
        for index, timestamp, count in done.stamped:
            step = count
            if ids[index + count - 1] != ids[index] + count - 1:
                step = 1  # The ids have gaps, but the timestamps do not.
            for offset in range(0, count, step):
                first_id = ids[index + offset]
                committed.add_stamps(answers.stamped, first_id, timestamp + offset, step)
                sender.note_stamps(first_id, timestamp + offset, step)
        return done.refused

    def _store_on(self, queue: Queue, target: str, batch: list[bytes]) -> PutOutcome:
        try:
            return client_put.store_on(
                self._context, self._catalogue, self._dead_letters, queue, target, batch
            )
        except RequestError as full:
            return PutOutcome([(index, full) for index in range(len(batch))], [])

    def _tell_matches(
        self,
        answers: StreamAnswers,
        ids: Sequence[int],
        topic: str,
        refused: list[tuple[int, RequestError]],
    ) -> None:
        """Reports the number of subscriptions that match each publication to its publisher."""
        if refused:
            left_out = {index for index, _ in refused}
            ids = [seq_id for index, seq_id in enumerate(ids) if index not in left_out]
        committed.add_matches(answers.matched, ids, len(self._catalogue.topics.match(topic)))


def _refuse(sender: Producer, answers: StreamAnswers, seq_id: int, error: RequestError) -> None:
    if seq_id > sender.seen:  # A producer may have marked an id as seen before its answer.
        sender.refused[seq_id] = error.code
    answers.refused.append([seq_id, int(error.code), error.text])
