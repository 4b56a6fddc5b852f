"""The answers of the queue manager, and their handlers. Late answers are dropped."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from qmgr_client.message import NOWHERE, Home
from qmgr_client.sansio.arriving_bodies import ArrivingBodies
from qmgr_client.sansio.consumers import Consumers
from qmgr_client.sansio.login import ClientProof
from qmgr_client.sansio.puts import Puts
from qmgr_client.sansio.requests import Requests
from qmgr_client.sansio.settles import Settles
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError

Kind = TypeVar("Kind", bound=m.Message)
# Any stands for the kind of a row, because one type cannot express a kind that differs from row to
# row.
Row: TypeAlias = tuple[type[object], Callable[[Any, int], None]]


def row(kind: type[Kind], handler: Callable[[Kind, int], None]) -> Row:
    """Returns the row of a table for *kind*.

    Type checkers know that *handler* accepts this kind.
    """
    return kind, handler


class AnswerRouter:
    """The router of answers. It uses the request ids that :class:`SendOrder` assigned."""

    def __init__(
        self,
        puts: Puts,
        settles: Settles,
        requests: Requests,
        consumers: Consumers,
        proof: ClientProof,
    ) -> None:
        self.home = NOWHERE  # store id and boot number of the connected queue manager
        self._name = ""
        self._puts = puts
        self._settles = settles
        self._requests = requests
        self._consumers = consumers
        self._proof = proof
        self._bodies = ArrivingBodies(0)  # bodies on the present connection

    def handlers(self) -> tuple[Row, ...]:
        """Returns the rows of the table of handlers."""
        return (
            row(m.Committed, self._on_committed),
            row(m.Settled, self._on_settled),
            row(m.Piece, self._on_piece),
            row(m.Deliver, self._on_deliver),
            row(m.Ok, self._on_ok),
            row(m.Error, self._on_error),
            row(m.Ended, self._on_ended),
        )

    @property
    def long_bytes(self) -> tuple[int, int]:
        """The bytes of long messages in transit that were transferred, and all of their bytes."""
        sent, to_send = self._puts.long_bytes
        received, to_receive = self._bodies.long_bytes
        return sent + received, to_send + to_receive

    def welcomed(self, welcome: m.Welcome) -> None:
        """Records the queue manager that sends the next answers."""
        self._name = welcome.name
        self._bodies = ArrivingBodies(welcome.message_max_bytes)
        self.home = Home(welcome.store_id, welcome.boot)

    def _on_committed(self, answer: m.Committed, now_ms: int) -> None:
        self._puts.committed(answer, self._name)

    def _on_settled(self, answer: m.Settled, now_ms: int) -> None:
        self._settles.settled(answer)

    def _on_piece(self, piece: m.Piece, now_ms: int) -> None:
        self._bodies.take(piece)

    def _on_deliver(self, answer: m.Deliver, now_ms: int) -> None:
        if answer.bodies:
            answer = self._bodies.filled(answer)
        give_back, queue_id = self._settles.give_back, answer.queue_id
        if answer.request_id in self._consumers.open:
            for handle, group_return in self._consumers.delivered(answer, now_ms):
                give_back(queue_id, handle, group_return)
        elif answer.request_id in self._requests.open:
            for handle in self._requests.delivered(answer, self.home):
                give_back(queue_id, handle)

    def _on_ok(self, answer: m.Ok, now_ms: int) -> None:
        if answer.request_id == self._puts.open_id:
            self._puts.opened(answer.value, self._name)
        elif answer.request_id in self._requests.open:
            self._requests.done(answer.request_id, answer.value, self._name)
        elif answer.request_id in self._consumers.open:
            self._consumers.opened(answer.request_id, answer.value)
        elif answer.request_id == self._proof.renewal_id:
            self._proof.renewed(answer, now_ms)

    def _on_error(self, answer: m.Error, now_ms: int) -> None:
        if answer.request_id == self._proof.renewal_id:
            self._proof.renewed(answer, now_ms)
            return
        error = RequestError(answer.code, answer.text, answer.retry_after_ms)
        self._refused(answer.request_id, error)

    def _on_ended(self, answer: m.Ended, now_ms: int) -> None:
        self._refused(answer.request_id, RequestError(answer.code, answer.text))

    def _refused(self, request_id: int, error: RequestError) -> None:
        if request_id == self._puts.open_id:
            self._puts.refused(error)
        elif request_id in self._requests.open:
            self._requests.failed(request_id, error)
        elif request_id in self._consumers.open:
            self._consumers.ended(request_id, error)
