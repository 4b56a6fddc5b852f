"""The client without I/O: what callers ask for goes in, bytes and results come out.

    put, settle, request, consume ──▶ ClientCore ──data_to_send──▶ bytes for the socket
                          results ◀──events──┘ ▲
                                               └─receive── bytes from the socket

Deterministic: it reads no clock, rolls no die and waits for nothing. Times are milliseconds of any
clock that never goes back. A shell calls :meth:`events` and :meth:`data_to_send` after whatever
else it called.
"""

from collections.abc import Callable, Sequence
from typing import Any

from qmgr_client.errors import GOODBYE, ConnectionEnded
from qmgr_client.message import Message
from qmgr_client.sansio.agenda import Agenda
from qmgr_client.sansio.answers import Answers
from qmgr_client.sansio.consumer import Consumer
from qmgr_client.sansio.consumers import ANY, Consumers, check_credit
from qmgr_client.sansio.events import Disconnected, Events, Failed, Ready
from qmgr_client.sansio.puts import Put, Puts
from qmgr_client.sansio.requests import Request, Requests, check
from qmgr_client.sansio.settles import PLAIN, Settle, Settles, Terms
from qmgr_client.sansio.unanswered import Unanswered
from qmgr_client.sansio.units import Unit, Units
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection, LivenessExpired
from qmgr_protocol.errors import ErrorClass, ErrorCode, RemoteProtocolError, class_of
from qmgr_protocol.record import Uid
from qmgr_protocol.states import Side, State

SOFTWARE = "qmgr_client/0.1.0"
FRAME_MAX_BYTES = 64 * 1024 * 1024  # a full credit of bytes and the largest message come in one
SEND_BYTES = 256 * 1024  # data_to_send returns when it has about as much
BYTES_MAX = 16 * 1024 * 1024  # credit of a consumer, unless it says so itself


class ClientCore:
    """A client of one queue manager, over any number of connections, one at a time.

    Invariant: each ticket that was given out has one result: what a connection takes down with it
    is sent again or, where that cannot be, ends with an error. Once ``failed`` is set nothing is
    open, and everything asked for raises it.
    """

    def __init__(
        self,
        name: str,
        producer_id: bytes,
        *,
        instance: int = 0,
        coalesce: bool = True,
        software: str = SOFTWARE,
        frame_max_bytes: int = FRAME_MAX_BYTES,
    ) -> None:
        """Make a client that is not connected yet.

        Args:
            name: what the queue manager shows for this client.
            producer_id: 16 bytes that no other live client uses.
            instance: a random number, below 2**63: if another client does use them, it tells whose
                puts are whose.
            coalesce: whether what waits together is sent together; else one put a frame.
            frame_max_bytes: the longest frame that is taken in.
        """
        assert len(producer_id) == 16, f"a producer id has 16 bytes, not {len(producer_id)}"
        self.welcome = m.Welcome(m.VERSION, "", b"", 0)  # Its defaults, until one has come.
        self.failed: ConnectionEnded | None = None
        self._hello = m.Hello(
            m.MAGIC,
            m.VERSION,
            m.VERSION,
            "client",
            name,
            software=software,
            frame_max_bytes=frame_max_bytes,
        )
        self._events: Events = []
        self._connection: Connection | None = None
        self._control: list[bytes] = []  # goes out before all else
        self._last_ticket = 0
        self._units = Units(self._events)
        self._puts = Puts(producer_id, instance, self._events, self._units, coalesce=coalesce)
        self._settles = Settles(self._events, self._units, coalesce=coalesce)
        self._requests = Requests(self._events, self._units)
        self.consumers = Consumers(self._events)
        self._unanswered = Unanswered(self._settles)
        self._agenda = Agenda(
            self._puts, self._settles, self._requests, self.consumers, self._unanswered, self._units
        )
        self._answers = Answers(self._puts, self._settles, self._requests, self.consumers)
        self._handlers: dict[type[Any], Callable[[Any, int], None]] = {
            **self._answers.handlers,
            m.Ping: self._on_ping,
            m.Welcome: self._on_welcome,
            m.Goaway: self._on_goaway,
        }

    @property
    def is_open(self) -> bool:
        """Whether a connection stands and has been welcomed."""
        return self._connection is not None and self._connection.state is State.OPEN

    @property
    def can_put(self) -> bool:
        """Whether less than a window of puts waits to be sent: callers wait until then."""
        return self._puts.has_room(self.welcome)

    @property
    def outstanding(self) -> int:
        """How many puts, settles and commits have no result yet."""
        return len(self._puts) + len(self._settles) + self._units.committing

    def events(self) -> Events:
        """Return what has happened since the last call."""
        found = self._events[:]
        self._events.clear()
        return found

    # What callers ask for

    def put(self, queue: str, record: bytes, uid: Uid | None = None) -> int:
        """Take in a put; PutDone has its result. *uid* is what the caller stamped, if it did.

        Raises:
            ConnectionEnded: this client is done.
        """
        ticket = self._ticket()
        self._puts.add(Put(ticket, queue, record, uid))
        return ticket

    def settle(
        self, message: Message, action: int, terms: Terms = PLAIN, unit: Unit | None = None
    ) -> int:
        """Take in the end of a lease (messages.ACK and so on); Settled has its result.

        An ack may be part of a *unit* of work.

        Raises:
            RequestError: VALUE_INVALID, terms that the protocol does not allow; UNIT_BACKED_OUT,
                UNIT_UNKNOWN: the unit is over.
            ConnectionEnded: this client is done.
        """
        if terms is not PLAIN:
            check(m.Settle, (action, 0, b"", 0, *terms), self.welcome.frame_max_bytes)
        if unit is not None:
            unit.check()
        ticket = self._ticket()
        lease = message.home, message.queue_id, self.consumers.handle_of(message)
        taken = self.consumers.settled(message, action, unit)
        self._settles.add(Settle(ticket, action, *lease, terms, unit, taken))
        return ticket

    def renew(self, message: Message, lease_ms: int, now_ms: int) -> int:
        """Take in the renewal of a lease; Settled has its result. Raises as :meth:`settle`."""
        terms = Terms(lease_ms=lease_ms)
        check(m.Settle, (m.RENEW, 0, b"", 0, *terms), self.welcome.frame_max_bytes)
        ticket = self._ticket()
        handle = self.consumers.handle_of(message)
        self.consumers.renewed(message.consumer, handle, lease_ms, now_ms)
        lease = message.home, message.queue_id, handle
        self._settles.add(Settle(ticket, m.RENEW, *lease, terms))
        return ticket

    def request(self, now_ms: int, kind: type[Any], *fields: Any, unit: Unit | None = None) -> int:
        """Take in a request: a class of messages, and its fields behind the request id.

        RequestDone or RequestFailed has its result. One for a *unit* of work ends with that.

        Raises:
            RequestError: VALUE_INVALID, a field that the protocol does not allow; UNIT_BACKED_OUT,
                UNIT_UNKNOWN: the unit is over.
            ConnectionEnded: this client is done.
        """
        message = check(kind, fields, self.welcome.frame_max_bytes)
        if unit is not None:
            unit.check()
        ticket = self._ticket()
        wait_ms = message.wait_ms if kind is m.Get else 0
        self._requests.add(Request(ticket, message, now_ms + wait_ms, unit=unit))
        return ticket

    # Units of work

    def begin_unit(self) -> int:
        """Begin a unit of work; RequestDone has it, a :class:`Unit`.

        Raises:
            ConnectionEnded: this client is done.
        """
        ticket = self._ticket()
        unit = self._units.begin()
        self._requests.add(Request(ticket, m.UnitBegin(1, unit.number), 0, unit=unit))
        return ticket

    def unit_put(self, unit: Unit, queue: str, outgoing: Sequence[tuple[bytes, Uid | None]]) -> int:
        """Put records in a unit, each with the UID that the caller stamped, if it did.

        RequestDone has what became of each: a PutResult, or a RequestError.

        Raises:
            RequestError: UNIT_BACKED_OUT, UNIT_UNKNOWN: it is over; VALUE_INVALID, all are more
                than a frame takes.
            ConnectionEnded: this client is done.
        """
        records = [record for record, _ in outgoing]
        message = check(m.UnitPut, (unit.number, queue, records), self.welcome.frame_max_bytes)
        unit.check()
        ticket = self._ticket()
        unit.stepped()
        uids = [uid for _, uid in outgoing]
        self._requests.add(Request(ticket, message, 0, unit=unit, uids=uids))
        return ticket

    def commit(self, unit: Unit) -> int:
        """Have a unit committed once all its steps are answered; PutDone has its result.

        Raises:
            RequestError: UNIT_BACKED_OUT, UNIT_UNKNOWN: it is over.
            ConnectionEnded: this client is done.
        """
        ticket = self._ticket()
        self._units.commit(unit, ticket)
        self._agenda.number_commits()
        return ticket

    def back_out(self, unit: Unit, reason: str = "", text: str = "") -> int:
        """Have a unit backed out; RequestDone has its result. Raises as :meth:`commit`.

        Args:
            reason, text: why, in a word of at most 64 characters, and for people in at most 1,000.
        """
        unit.check()
        self._requests.back_out(ticket := self._ticket(), unit, reason, text)
        self.consumers.undone(unit)
        return ticket

    def abandon(self, ticket: int) -> None:
        """Drop a request without a result; what a get still brings is given back."""
        cancel = self._requests.abandon(ticket)
        if cancel is not None:
            self._unanswered.add(cancel)

    def consume(
        self,
        queue: str,
        prefetch: int,
        bytes_max: int = BYTES_MAX,
        lease_ms: int = 0,
        selection: tuple[str, bytes, bytes] = ANY,
        groups: tuple[int, bool] = (m.PHYSICAL, False),
        *,
        auto_renew: bool = False,
    ) -> int:
        """Take in a consumer; Delivered says that it has messages, ConsumerEnded that it is over.

        Raises:
            RequestError: VALUE_INVALID, a field that the protocol does not allow.
            ConnectionEnded: this client is done.
        """
        fields = (queue, prefetch, bytes_max, lease_ms, *selection, *groups)
        check(m.Consume, fields, self.welcome.frame_max_bytes)
        check_credit(prefetch, bytes_max)
        ticket = self._ticket()
        self.consumers.add(Consumer(ticket, *fields[:4], selection, groups, auto_renew))
        return ticket

    def next_message(self, ticket: int, now_ms: int) -> Message | None:
        """Return the next message of a consumer, or None where none has come."""
        self.start_next(ticket, now_ms)
        return self.consumers.next_message(ticket, self._answers.home, now_ms)

    def start_next(self, ticket: int, now_ms: int) -> bool:
        """Start the lease of a consumer's next message if none started for a while.

        Return whether it does: that is to be sent before the application has the message.
        """
        is_due = self.consumers.start_next(ticket, now_ms)
        if is_due:
            self.renew_leases(now_ms)
        return is_due

    def renew_leases(self, now_ms: int) -> None:
        """Start the leases of what the application took, and renew those that go on."""
        self.consumers.starts_now = False
        if self.is_open:
            for queue_id, handle in self.consumers.renewals(now_ms):
                self._settles.renew(queue_id, handle)

    def cancel(self, ticket: int) -> None:
        """End a consumer; what it was not handed yet goes back unread."""
        cancel, unread = self.consumers.cancel(ticket)
        for queue_id, handle in unread:
            self._settles.give_back(queue_id, handle)
        if cancel is not None:
            self._unanswered.add(cancel)

    def renew_producer(self, producer_id: bytes) -> None:
        """Go on with puts under a new producer id, after ProducerLost."""
        self._puts.renew(producer_id)

    def end(self, error: ConnectionEnded) -> None:
        """End everything that is open with *error*, for good."""
        if self.failed is not None:
            return
        self.failed = error
        self._puts.fail(error)
        self._settles.fail(error)
        self._requests.fail(error)
        self.consumers.fail(error)
        self._units.fail(error)
        self._events.append(Failed(error))

    def _ticket(self) -> int:
        if self.failed is not None:
            raise self.failed
        self._last_ticket += 1
        return self._last_ticket

    # The connection

    def connected(self, now_ms: int) -> None:
        """Begin on a new connection."""
        assert self._connection is None, "the last connection was not reported lost"
        if self.failed is not None:
            raise self.failed
        self._connection = Connection(Side.DIALLER, now_ms=now_ms)
        self._send_now(self._hello)

    def connection_lost(self) -> None:
        """Let go of the connection; what it had under way is sent again on the next one."""
        if self._connection is None:
            return
        self._connection = None
        self._control.clear()
        self._units.lost()
        self._settles.lost()
        self._puts.lost()
        self._requests.lost()
        self.consumers.lost()
        self._unanswered.lost()

    def receive(self, data: bytes, now_ms: int) -> None:
        """Take what the queue manager sent."""
        connection = self._connection
        if connection is None or self.failed is not None:
            return
        try:
            for message, _ in connection.receive(data, now_ms):
                handler = self._handlers.get(type(message))
                if handler is not None:  # Pongs, and what a newer queue manager may say.
                    handler(message, now_ms)
        except RemoteProtocolError as error:
            self._broken(error)
        else:
            if connection.error is not None:
                self._broken(connection.error)
            elif self.consumers.starts_now:
                self.renew_leases(now_ms)

    def poll(self, now_ms: int) -> None:
        """Do what time asks for: heartbeats, and the end of leases and of a silent connection."""
        self.consumers.expire(now_ms)
        self.renew_leases(now_ms)
        connection = self._connection
        if connection is None or connection.is_closed:
            return
        limits = self.welcome
        try:
            ping = connection.poll(now_ms, limits.heartbeat_ms, limits.liveness_ms)
        except LivenessExpired as error:
            self._send_now(m.Goaway(error.code, str(error)))
            self._events.append(Disconnected(error.code, str(error), 0))
        else:
            if ping:
                self._control.append(ping)

    def data_to_send(self, now_ms: int) -> bytes:
        """Return bytes for the queue manager, or nothing where none are due.

        About SEND_BYTES at a time: ask again until there is nothing, or the socket is full.
        """
        parts, size = self._control[:], 0
        self._control.clear()
        connection = self._connection
        if connection is not None and connection.state is State.OPEN and self.failed is None:
            agenda, limits = self._agenda, self.welcome
            while size < SEND_BYTES and (message := agenda.next(limits, now_ms)) is not None:
                data = connection.send(message)
                parts.append(data)
                size += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _send_now(self, message: m.Message) -> None:
        connection = self._connection
        if connection is not None and not connection.is_closed:
            self._control.append(connection.send(message))

    def _broken(self, error: RemoteProtocolError) -> None:
        """Say what the queue manager did wrong. It would do so again: no reconnect."""
        what = (
            "the queue manager broke the protocol" if self.is_open else "no queue manager answers"
        )
        self._send_now(m.Goaway(error.code, str(error)[:1_000]))
        self.end(ConnectionEnded(error.code, f"{what}: {error}"))

    # What the queue manager says

    def _on_welcome(self, welcome: m.Welcome, now_ms: int) -> None:
        self.welcome = welcome
        self._hello = self._hello._replace(session=welcome.session)  # to resume it
        self._answers.welcomed(welcome)
        self._settles.came_to(self._answers.home)
        self._events.append(Ready(welcome))

    def _on_goaway(self, goaway: m.Goaway, now_ms: int) -> None:
        code, text = goaway.code, f"{GOODBYE}{goaway.text}"
        again = class_of(code) is ErrorClass.RETRY_LATER or code == ErrorCode.INTERNAL_ERROR
        if again:
            self._events.append(Disconnected(code, text, goaway.retry_after_ms))
        else:
            self.end(ConnectionEnded(code, text))

    def _on_ping(self, ping: m.Ping, now_ms: int) -> None:
        self._send_now(m.Pong(ping.number))
