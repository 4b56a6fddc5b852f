"""Stores the records of producers, and notes the results for their answers.

A put costs ten times as much by itself as in a batch. Therefore, puts of one short record wait
until the turn reaches a request of another kind, or enough of them wait. They are then stored
together, queue by queue. The puts on one queue stay in order, and so do the puts of one connection.
All of this happens within one turn, so no answer is early.
"""

from collections.abc import Sequence
from typing import NamedTuple

from qmgr_protocol.errors import RemoteProtocolError, RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context import committed
from qmgrd.core.context.context import Context
from qmgrd.core.context.producer import Producer
from qmgrd.core.puts import client_put
from qmgrd.core.queue.put import PutOutcome
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.sessions.session import Session, StreamAnswers

JOINED_MAX = 256
RECORD_MAX_BYTES = 4_096


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
        self._unseen_max = 2 * context.config.limits.put_window_messages
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
    ) -> bool:
        """Stores *batch* except records with *errors*, now or with the puts that wait.

        Args:
            name: The queue or topic.
            session: The connection of the producer.
            sender: The producer.
            answers: The answers to the producer.
            ids: The ids of the records.
            batch: The records.
            errors: The errors of records that are refused, by index.

        Returns:
            Whether some records were refused.
        """
        if len(batch) == 1 and not errors:
            single = _Single(session, sender, answers, ids[0], batch[0])
            if self._lets_wait(name, single):
                return False
        self.store_waiting()
        refused = [(ids[index], error) for index, error in errors.items()]
        if errors:
            batch = [record for index, record in enumerate(batch) if index not in errors]
            ids = [seq_id for index, seq_id in enumerate(ids) if index not in errors]
        if batch:
            found = self._store(name, batch, sender, answers, ids)
            refused += [(ids[index], error) for index, error in found]
        for seq_id, error in refused:
            _refuse(sender, answers, seq_id, error)
        return bool(refused)

    def _lets_wait(self, name: str, single: _Single) -> bool:
        """Lets a put to *name* wait. Returns False if it has to be stored by itself."""
        context = self._context
        if not context.joins_puts or len(single.record) > RECORD_MAX_BYTES:
            return False
        try:
            queue, target = self._catalogue.destination(name)
        except RequestError:
            return False  # The error may depend on what the user may see.
        # Puts to one queue by two names would lose their order.
        is_alias = name != queue.name and not target
        if is_alias or queue.is_publications or queue.bounds.overflow != "refuse":
            return False
        key, connection = (queue.id, target), single.session.connection
        if self._latest.setdefault(connection, key) != key:
            self.store_waiting()  # The connection has put to another queue before.
            self._latest[connection] = key
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = queue, []
        waiting[1].append(single)
        self._count += 1
        if self._count >= min(JOINED_MAX, context.turn_rows // 4):
            self.store_waiting()
        return True

    def store_waiting(self) -> None:
        """Stores the puts that wait."""
        if not self._count:
            return
        self.is_storing = True
        for (_, target), (queue, singles) in self._waiting.items():
            self._store_together(queue, target, singles)
        self._waiting.clear()
        self._latest.clear()
        self._count, self.is_storing = 0, False

    def _store_together(self, queue: Queue, target: str, singles: list[_Single]) -> None:
        batch, name = [single.record for single in singles], "" if target else queue.name
        try:
            done = client_put.store_on(
                self._context, self._catalogue, self._dead_letters, name, queue, target, batch
            )
        except RequestError as full:
            done = PutOutcome([(index, full) for index in range(len(batch))], [])
        for index, timestamp, count in done.stamped:
            for offset in range(count):
                _, sender, answers, seq_id, _ = singles[index + offset]
                committed.add_stamps(answers.stamped, seq_id, timestamp + offset, 1)
                sender.note_stamps(seq_id, timestamp + offset, 1)
        for index, error in done.refused:
            session, sender, answers, seq_id, _ = singles[index]
            _refuse(sender, answers, seq_id, error)
            if (why := session.unseen_error(self._unseen_max)) is not None:
                self.exceeded[session.connection] = why

    def _store(
        self,
        name: str,
        batch: list[bytes],
        sender: Producer,
        answers: StreamAnswers,
        ids: Sequence[int],
    ) -> list[tuple[int, RequestError]]:
        """Puts *batch* on queue *name*.

        Returns the indexes and errors of refused records.
        """
        try:
            queue, target, done = client_put.store(
                self._context, self._catalogue, self._dead_letters, name, batch
            )
        except RequestError as error:
            return [(index, error) for index in range(len(batch))]
        if queue.is_publications:
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
    sender.refused[seq_id] = error.code
    answers.refused.append([seq_id, int(error.code), error.text])
