"""Requests with one answer each: gets, browses, administration.

The client repeats these requests after a reconnect.

Requests of a unit of work are not repeated, because the unit is lost with its connection.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from qmgr_client import message as messages
from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Home, PutResult
from qmgr_client.sansio.events import Events, RequestDone, RequestFailed
from qmgr_client.sansio.outgoing_body import UNIT_BODY, OutgoingBody, pieces_for
from qmgr_client.sansio.units import OpenUnits, Unit, backed_out_error, outcomes, unit_ended_error
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.frame import encode
from qmgr_protocol.layout import parse, to_array
from qmgr_protocol.record import Uid

Kind = TypeVar("Kind", bound=m.Request)

# Results of deletions that succeeded but whose answers were lost.
_GONE: dict[type[m.Request], tuple[ErrorCode, dict[str, None]]] = {
    m.QueueDelete: (ErrorCode.QUEUE_UNKNOWN, {"messages": None}),
    m.LinkDelete: (ErrorCode.LINK_UNKNOWN, {"messages": None}),
    m.TemplateDelete: (ErrorCode.TEMPLATE_UNKNOWN, {"queues": None}),
    m.Unsubscribe: (ErrorCode.SUBSCRIPTION_UNKNOWN, {"messages": None}),
    m.TopicDelete: (ErrorCode.TOPIC_UNKNOWN, {}),
}
_ABANDONED = RequestError(ErrorCode.CANCELLED, "the caller abandoned the request")


@dataclass(slots=True)
class Request:
    """A request that has no answer yet."""

    ticket: int
    message: m.RequestWithId  # message to send; each connection sets its own request id
    deadline_ms: int  # time when the wait of a get ends
    was_lost: bool = False  # whether the connection was lost after the request was sent
    is_abandoned: bool = False  # whether the caller no longer wants an answer
    unit: Unit | None = None  # unit of work that the request is part of
    uids: Sequence[Uid | None] = ()  # UIDs that the caller of a UnitPut chose
    record: bytes = b""  # record of a UnitPut that is sent in pieces

    @property
    def is_step(self) -> bool:
        """Whether the commit of its unit waits for this request."""
        return type(self.message) is m.UnitPut

    @property
    def is_get(self) -> bool:
        """Whether the request is a get."""
        return type(self.message) is m.Get

    def under(self, request_id: int, now_ms: int) -> m.Message:
        """Returns the message to send. A repeated get waits only for the rest of its wait time."""
        message = self.message
        if type(message) is m.Get:
            wait_ms = min(max(self.deadline_ms - now_ms, 0), message.wait_ms)
            return message._replace(request_id=request_id, wait_ms=wait_ms)
        return message._replace(request_id=request_id)


def check(kind: type[Kind], fields: tuple[Any, ...], bytes_max: int) -> Kind:
    """Returns the message of *kind* with *fields* after its request id.

    Raises:
        RequestError: VALUE_INVALID if the queue manager would close the connection.
    """
    try:
        message = kind(1, *fields)
        parse(list(to_array(message)))
        size = len(encode(to_array(message)))
    except (FieldInvalid, TypeError, ValueError, OverflowError) as error:
        raise RequestError(ErrorCode.VALUE_INVALID, str(error)) from error
    if size > bytes_max:
        raise RequestError(
            ErrorCode.VALUE_INVALID, f"{kind.__name__} has {size} bytes; the limit is {bytes_max}"
        )
    return message


def unit_put(
    unit: Unit, queue: str, outgoing: Sequence[tuple[bytes, Uid | None]], limits: m.Welcome
) -> Request:
    """Returns the request that puts records in *unit*. Its ticket is 0.

    Raises:
        RequestError: VALUE_INVALID if the records together exceed a frame.
    """
    records, bodies, long = [record for record, _ in outgoing], list[list[int]](), b""
    if len(records) == 1 and pieces_for(records[0], limits):
        (long,), records, bodies = records, [b""], [[0, UNIT_BODY]]
    message = check(m.UnitPut, (unit.number, queue, records, bodies), limits.frame_max_bytes)
    return Request(0, message, 0, unit=unit, uids=[uid for _, uid in outgoing], record=long)


class Requests:
    """All requests that have no answer yet.

    Invariant: each request is in one of ``_waiting``, ``_gets``, ``long`` and ``open``. Gets wait
    separately because they must not overtake the repeated puts of an earlier connection. ``long``
    begins with a UnitPut whose pieces are being sent. Later UnitPuts of units in it wait behind it.
    """

    def __init__(self, events: Events, units: OpenUnits) -> None:
        self._units = units
        self.open: dict[int, Request] = {}  # key: request id on this connection
        self._events = events
        self._waiting: deque[Request] = deque()
        self._gets: deque[Request] = deque()
        self.long: deque[Request] = deque()
        self._body: OutgoingBody | None = None  # rest of the first request in ``long``

    def __len__(self) -> int:
        """Returns the number of requests without an answer."""
        return len(self._waiting) + len(self._gets) + len(self.long) + len(self.open)

    def add(self, request: Request) -> None:
        """Queues a request until the window has room for it."""
        (self._gets if request.is_get else self._waiting).append(request)

    def has_next(self, *, gets: bool) -> bool:
        """Returns whether a request waits to be sent. Gets count only if *gets* is true."""
        while self._waiting and self._waits_for_pieces(self._waiting[0]):
            self.long.append(self._waiting.popleft())
        return bool(self._waiting or (gets and self._gets))

    def take(self, request_id: int, now_ms: int) -> m.Message:
        """Returns the next request to send, with *request_id*."""
        request = (self._waiting or self._gets).popleft()
        self.open[request_id] = request
        return request.under(request_id, now_ms)

    def _waits_for_pieces(self, request: Request) -> bool:
        if not request.is_step:
            return False
        return bool(request.record) or any(request.unit is found.unit for found in self.long)

    def take_piece(
        self, limits: m.Welcome, request_id: Callable[[], int] | None
    ) -> m.Message | None:
        """Returns the next piece of a long UnitPut, or the request after its last piece, or None.

        *request_id* returns the id of the request. If it is None, no request may be sent.
        """
        if not self.long:
            return None
        request = self.long[0]
        if request.record:
            if self._body is None:
                size = pieces_for(request.record, limits)
                self._body = OutgoingBody(UNIT_BODY, request.record, size)
            if (piece := self._body.next()) is not None:
                return piece
        if request_id is None:
            return None
        self.long.popleft()
        self._body = None
        number = request_id()
        self.open[number] = request
        return request.under(number, 0)

    def _stop_long(self) -> None:
        """Stops sending the long UnitPuts, so that they wait again before the other requests."""
        self._waiting.extendleft(reversed(self.long))
        self.long.clear()
        self._body = None

    def done(self, request_id: int, value: Any, origin: str) -> None:
        """Handles the value of a request. *origin* is the name of the queue manager.

        Raises:
            FieldInvalid: The queue manager broke the protocol.
        """
        request = self.open[request_id]
        if request.unit is not None:
            value = self._done_in_unit(request, request.unit, value, origin)
        del self.open[request_id]
        if not request.is_abandoned:
            value = [] if request.is_get and value is None else value
            self._events.append(RequestDone(request.ticket, value))

    def _done_in_unit(self, request: Request, unit: Unit, value: Any, origin: str) -> Any:
        """Updates the state of a unit and returns the value for the caller."""
        kind = type(request.message)
        if kind is m.UnitBegin:
            unit.is_begun = True
            if request.is_abandoned:  # No caller will commit this unit.
                self.back_out(0, unit, is_wanted=False)
            return unit
        if kind is m.UnitPut:
            results = outcomes(value, request.uids, origin)
            unit.puts += sum(1 for result in results if isinstance(result, PutResult))
            self._units.answered(unit)
            return results
        for group_return in unit.group_returns if kind is m.UnitBackout else ():
            group_return.is_answered = True
        return value

    def back_out(
        self, ticket: int, unit: Unit, reason: str = "", text: str = "", *, is_wanted: bool = True
    ) -> None:
        """Queues the backout of a unit and ends the unit for its caller."""
        request = Request(ticket, m.UnitBackout(1, unit.number, reason, text), 0, unit=unit)
        request.is_abandoned = not is_wanted
        self._units.end(unit, unit_ended_error(unit))
        self._waiting.append(request)

    def delivered(self, answer: m.Deliver, home: Home) -> list[bytes]:
        """Handles the messages of a get.

        If the get was abandoned, returns the handles of the messages.
        """
        request = self.open.pop(answer.request_id)
        if request.is_abandoned:
            return [item[: m.HANDLE.size] for item in answer.items]
        get = request.message
        queue = get.queue if type(get) is m.Get else ""
        found = [messages.decode(item, queue, answer.queue_id, home) for item in answer.items]
        self._events.append(RequestDone(request.ticket, found))
        return []

    def failed(self, request_id: int, error: RequestError) -> None:
        """Handles the refusal of a request."""
        request = self.open.pop(request_id)
        self._refused_in_unit(request, error)
        if request.is_abandoned:
            return
        code, value = _GONE.get(type(request.message), (None, None))
        if request.was_lost and code == error.code:
            self._events.append(RequestDone(request.ticket, dict(value or {})))
        else:
            self._events.append(RequestFailed(request.ticket, error))

    def _refused_in_unit(self, request: Request, error: RequestError) -> None:
        if request.unit is None:
            return
        if request.is_step:
            self._units.answered(request.unit)
        elif type(request.message) is m.UnitBegin:
            self._units.end(request.unit, error)

    def abandon(self, ticket: int) -> m.Cancel | None:
        """Drops a request. Returns the message that cancels the request, or None."""
        for waiting in (self._waiting, self._gets, self.long):
            for request in waiting:
                if request.ticket == ticket and type(request.message) is m.UnitBackout:
                    request.is_abandoned = True  # A backout is still sent.
                    return None
                if request.ticket == ticket:
                    if waiting is self.long and request is waiting[0]:
                        self._body = None
                    waiting.remove(request)
                    self._refused_in_unit(request, _ABANDONED)
                    return None
        for request_id, request in self.open.items():
            if request.ticket == ticket:
                request.is_abandoned = True
                return m.Cancel(request_id) if request.is_get else None
        return None

    def lost(self) -> None:
        """Queues the unanswered requests for the next connection, in their original order."""
        self._stop_long()
        again = [request for request in self.open.values() if not request.is_abandoned]
        for request in reversed(again):
            request.was_lost = True
            (self._gets if request.is_get else self._waiting).appendleft(request)
        for request in self.open.values():
            if request.is_abandoned and request.unit is not None:
                self._units.end(request.unit, backed_out_error(request.unit))
        self.open.clear()
        self._waiting = deque(filter(self._outlives_connection, self._waiting))
        self._gets = deque(filter(self._outlives_connection, self._gets))

    def _outlives_connection(self, request: Request) -> bool:
        """Returns whether to send a request on the next connection. If not, ends the request."""
        unit = request.unit
        if unit is None or (type(request.message) is m.UnitBegin and not request.is_abandoned):
            return True
        if request.is_step:
            self._units.answered(unit)
        if type(request.message) is m.UnitBackout:
            done: RequestDone | RequestFailed = RequestDone(request.ticket, None)
        else:
            done = RequestFailed(request.ticket, backed_out_error(unit))
        if not request.is_abandoned:
            self._events.append(done)
        return False

    def fail(self, error: ConnectionEnded) -> None:
        """Ends every request with *error*."""
        self._stop_long()
        sent = error.once_sent()
        for request in self.open.values():
            if not request.is_abandoned:
                self._events.append(RequestFailed(request.ticket, sent))
        for request in (*self._waiting, *self._gets):
            if not request.is_abandoned:
                failure = sent if request.was_lost else error
                self._events.append(RequestFailed(request.ticket, failure))
        self.open.clear()
        self._waiting.clear()
        self._gets.clear()
