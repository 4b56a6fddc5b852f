"""The client without I/O: it accepts calls and bytes, and returns bytes and results.

    put, settle, request, consume ──▶ ClientCore ──data_to_send──▶ bytes for the socket
                          results ◀──events──┘ ▲
                                               └─receive── bytes from the socket

The core is deterministic: it does not read a clock, use randomness or wait. Times are milliseconds
of any monotonic clock. A shell calls :meth:`events` and :meth:`data_to_send` after each call of
another method.
"""

from collections.abc import Sequence
from typing import Any

from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Message
from qmgr_client.sansio.answers import AnswerRouter, row
from qmgr_client.sansio.consumer import ConsumerState
from qmgr_client.sansio.consumers import ANY, Consumers, check_credit
from qmgr_client.sansio.events import Disconnected, Events, Failed, Ready
from qmgr_client.sansio.goodbye import broken_by, ended_by
from qmgr_client.sansio.login import ClientProof, NewLogin, hello_of
from qmgr_client.sansio.pending_cancels import PendingCancels
from qmgr_client.sansio.puts import PendingPut, Puts
from qmgr_client.sansio.requests import Request, Requests, check, unit_put
from qmgr_client.sansio.send_order import SendOrder
from qmgr_client.sansio.settles import PLAIN, PendingSettle, Settles, SettleTerms
from qmgr_client.sansio.tick_times import TickTimes
from qmgr_client.sansio.units import OpenUnits, Unit
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection, LivenessExpired
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgr_protocol.record import Uid
from qmgr_protocol.states import Side, State

SOFTWARE = "qmgr_client/0.1.0"
# One frame may carry the full credit of a consumer, or the largest message.
FRAME_MAX_BYTES = 64 * 1024 * 1024
SEND_BYTES = 256 * 1024  # approximate size of a result of data_to_send
BYTES_MAX = 16 * 1024 * 1024  # default credit of a consumer


class ClientCore:
    """A client of one queue manager.

    The client uses one connection at a time, and any number of connections in sequence.

    Invariant: each ticket has exactly one result. After the loss of a connection, each request is
    sent again, or ends with an error if the request cannot be repeated. Once ``failed`` is set, no
    request, consumer or unit is open, and every new request raises that ConnectionEnded.
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
        new_login: NewLogin | None = None,
    ) -> None:
        """Initializes a client that is not connected.

        Args:
            name: The name of this client in the logs and lists of the queue manager.
            producer_id: 16 bytes that no other running client uses.
            instance: A random number below 2**63. It distinguishes the puts of two clients that
                use the same *producer_id* by mistake.
            coalesce: Whether puts that are pending at the same time are sent in one frame.
            frame_max_bytes: The size of the longest frame that the client accepts.
            new_login: See :data:`NewLogin`. None if the client does not log in. If it raises
                ValueError, the client ends with that text.
        """
        assert len(producer_id) == 16, f"a producer id has 16 bytes, not {len(producer_id)}"
        self.welcome = m.Welcome(m.VERSION, "", b"", 0)  # defaults until a Welcome arrives
        self.failed: ConnectionEnded | None = None
        self._hello = hello_of(name, software, frame_max_bytes)
        self._proof = ClientProof(new_login)
        self._events: Events = []
        self._connection: Connection | None = None
        self._control: list[bytes] = []  # frames to send before all others
        self._last_ticket = 0
        self._units = OpenUnits(self._events)
        self._puts = Puts(producer_id, instance, self._events, self._units, coalesce=coalesce)
        self._settles = Settles(self._events, self._units, coalesce=coalesce)
        self._requests = Requests(self._events, self._units)
        self._consumers = Consumers(self._events)
        self._tick_times = TickTimes(self._consumers)
        self._unanswered = PendingCancels(self._settles)
        parts = self._puts, self._settles, self._requests, self._consumers
        self._send_order = SendOrder(*parts, self._unanswered, self._units, self._proof)
        self.answers = AnswerRouter(*parts, self._proof)
        greetings = row(m.AuthChallenge, self._on_challenge), row(m.Welcome, self._on_welcome)
        others = row(m.Goaway, self._on_goaway), row(m.Ping, self._on_ping)
        self._handlers = dict((*self.answers.handlers(), *greetings, *others))

    @property
    def is_open(self) -> bool:
        """Whether the client has a connection that the queue manager has welcomed."""
        return self._connection is not None and self._connection.state is State.OPEN

    @property
    def has_credit(self) -> bool:
        """Whether a consumer may have credit to send."""
        return self._consumers.has_credit

    @property
    def can_put(self) -> bool:
        """Whether a caller may put now. False if a full window of puts waits to be sent."""
        return self._puts.has_room(self.welcome)

    @property
    def outstanding(self) -> int:
        """The number of puts, settles and commits without a result."""
        return len(self._puts) + len(self._settles) + self._units.committing

    def events(self) -> Events:
        """Returns the events since the last call."""
        found = self._events[:]
        self._events.clear()
        return found

    # Requests of callers

    def put(self, queue: str, record: bytes, uid: Uid | None = None) -> int:
        """Queues a put and returns its ticket. PutDone reports the result.

        *uid* is the UID in *record*, if the caller chose one.
        """
        ticket = self._ticket()
        self._puts.add(PendingPut(ticket, queue, record, uid))
        return ticket

    def settle(
        self, message: Message, action: int, terms: SettleTerms = PLAIN, unit: Unit | None = None
    ) -> int:
        """Queues the end of a lease and returns its ticket. SettleDone reports the result.

        *action* is an action of the protocol, such as messages.ACK. An ack may be part of a *unit*.

        Raises:
            RequestError: VALUE_INVALID if the protocol does not allow the *terms*. UNIT_BACKED_OUT
                or UNIT_UNKNOWN if the unit has ended.
        """
        if terms is not PLAIN:
            check(m.Settle, (action, 0, b"", 0, *terms), self.welcome.frame_max_bytes)
        if unit is not None:
            unit.check()
        ticket = self._ticket()
        lease = message.home, message.queue_id, self.handle_of(message)
        group_return = self._consumers.settled(message, action, unit)
        self._settles.add(PendingSettle(ticket, action, *lease, terms, unit, group_return))
        return ticket

    def renew(self, message: Message, lease_ms: int, now_ms: int) -> int:
        """Queues the renewal of a lease. The result is the same as in :meth:`settle`."""
        terms = SettleTerms(lease_ms=lease_ms)
        check(m.Settle, (m.RENEW, 0, b"", 0, *terms), self.welcome.frame_max_bytes)
        ticket = self._ticket()
        handle = self.handle_of(message)
        self._consumers.renewed(message.consumer, handle, lease_ms, now_ms)
        lease = message.home, message.queue_id, handle
        self._settles.add(PendingSettle(ticket, m.RENEW, *lease, terms))
        return ticket

    def request(
        self, now_ms: int, kind: type[m.RequestWithId], *fields: Any, unit: Unit | None = None
    ) -> int:
        """Queues a request of *kind* with the *fields* that follow the request id.

        RequestDone or RequestFailed reports the result. A request for a *unit* of work ends when
        the unit ends.

        Raises:
            RequestError: VALUE_INVALID if the protocol does not allow a field. UNIT_BACKED_OUT or
                UNIT_UNKNOWN if the unit has ended.
        """
        message = check(kind, fields, self.welcome.frame_max_bytes)
        if unit is not None:
            unit.check()
        ticket = self._ticket()
        wait_ms = message.wait_ms if type(message) is m.Get else 0
        self._requests.add(Request(ticket, message, now_ms + wait_ms, unit=unit))
        return ticket

    def handle_of(self, message: Message) -> bytes:
        """Returns the handle of the latest lease of *message*."""
        return self._consumers.handle_of(message)

    # Units of work

    def begin_unit(self) -> int:
        """Begins a unit of work and returns a ticket. RequestDone has the :class:`Unit`."""
        ticket = self._ticket()
        unit = self._units.begin()
        self._requests.add(Request(ticket, m.UnitBegin(1, unit.number), 0, unit=unit))
        return ticket

    def unit_put(self, unit: Unit, queue: str, outgoing: Sequence[tuple[bytes, Uid | None]]) -> int:
        """Puts records in a unit. Each record is paired with its UID if the caller chose one.

        A long record is alone in its put, which then sends it in pieces.
        RequestDone has a PutResult or a RequestError for each record.

        Raises:
            RequestError: UNIT_BACKED_OUT or UNIT_UNKNOWN if the unit has ended. VALUE_INVALID if
                the records together exceed a frame.
        """
        request = unit_put(unit, queue, outgoing, self.welcome)
        unit.check()
        request.ticket = self._ticket()
        unit.stepped()
        self._requests.add(request)
        return request.ticket

    def commit(self, unit: Unit) -> int:
        """Commits a unit once all its steps are answered. PutDone reports the result.

        Raises:
            RequestError: UNIT_BACKED_OUT or UNIT_UNKNOWN if the unit has ended.
        """
        ticket = self._ticket()
        self._units.commit(unit, ticket)
        self._send_order.number_commits()
        return ticket

    def back_out(self, unit: Unit, reason: str = "", text: str = "") -> int:
        """Backs out a unit. RequestDone reports the result.

        *reason* has at most 64 characters, and *text* has at most 1,000. The errors are the same as
        in :meth:`commit`.
        """
        unit.check()
        self._requests.back_out(ticket := self._ticket(), unit, reason, text)
        self._consumers.undone(unit)
        return ticket

    def abandon(self, ticket: int) -> None:
        """Drops a request. Messages that a dropped get still receives are returned unread."""
        if (cancel := self._requests.abandon(ticket)) is not None:
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
        """Opens a consumer. Delivered reports new messages, and ConsumerEnded reports its end.

        Raises:
            RequestError: VALUE_INVALID if the protocol does not allow a field.
        """
        fields = (queue, prefetch, bytes_max, lease_ms, *selection, *groups)
        check(m.Consume, fields, self.welcome.frame_max_bytes)
        check_credit(prefetch, bytes_max)
        ticket = self._ticket()
        self._consumers.add(ConsumerState(ticket, *fields[:4], selection, groups, auto_renew))
        return ticket

    def next_message(self, ticket: int, now_ms: int) -> Message | None:
        """Returns the next message of a consumer, or None if no message is buffered."""
        self.start_next(ticket, now_ms)
        return self._consumers.next_message(ticket, self.answers.home, now_ms)

    def start_next(self, ticket: int, now_ms: int) -> bool:
        """Starts the lease of a consumer's next message if no lease has started recently.

        If the method returns True, send the data before the application receives the message.
        """
        is_due = self._consumers.start_next(ticket, now_ms)
        if is_due:
            self._renew_leases(now_ms)
        return is_due

    def _renew_leases(self, now_ms: int) -> None:
        """Starts the leases of messages that the application received, and renews leases."""
        self._consumers.starts_now = False
        if self.is_open:
            for queue_id, handle in self._consumers.renewals(now_ms):
                self._settles.renew(queue_id, handle)
        else:
            self._consumers.start_due_ms = None
        self._tick_times.leases_started(self.welcome.heartbeat_ms, now_ms)

    def cancel(self, ticket: int) -> None:
        """Ends a consumer. Messages that the application has not received are returned unread."""
        cancel, unread = self._consumers.cancel(ticket)
        for queue_id, handle in unread:
            self._settles.give_back(queue_id, handle)
        if cancel is not None:
            self._unanswered.add(cancel)

    def renew_producer(self, producer_id: bytes) -> None:
        """Continues to put under a new producer id after ProducerLost."""
        self._puts.renew(producer_id)

    def end(self, error: ConnectionEnded) -> None:
        """Ends the client, and with *error* all open requests, consumers and units."""
        if self.failed is not None:
            return
        self.failed = error
        self._puts.fail(error)
        self._settles.fail(error)
        self._requests.fail(error)
        self._consumers.fail(error)
        self._units.fail(error)
        self._events.append(Failed(error))

    def _ticket(self) -> int:
        if self.failed is not None:
            raise self.failed
        self._last_ticket += 1
        return self._last_ticket

    # The connection

    def connected(self, now_ms: int, server_hash: bytes = b"") -> None:
        """Starts on a new connection. Without TLS, the *server_hash* of its certificate is b""."""
        assert self._connection is None, "connection_lost was not called for the last connection"
        if self.failed is not None:
            raise self.failed
        try:
            hello = self._proof.begin(self._hello, server_hash)
        except ValueError as error:
            self.end(ConnectionEnded(ErrorCode.LOGIN_FAILED, str(error)))
            return
        self._connection = Connection(Side.DIALLER, now_ms=now_ms)
        self._send_now(hello)

    def connection_lost(self) -> None:
        """Forgets the connection. The requests in flight are sent again on the next connection."""
        if self._connection is None:
            return
        self._connection = None
        self._control.clear()
        self._units.lost()
        self._settles.lost()
        self._puts.lost()
        self._requests.lost()
        self._consumers.lost()
        self._unanswered.lost()

    def receive(self, data: bytes, now_ms: int) -> None:
        """Handles *data* from the queue manager."""
        connection = self._connection
        if connection is None or self.failed is not None:
            return
        try:
            for message, _ in connection.receive(data, now_ms):
                handler = self._handlers.get(type(message))
                if handler is not None:  # Pongs and unknown messages have no handler.
                    handler(message, now_ms)
        except RemoteProtocolError as error:
            self._broken(error)
        else:
            if connection.error is not None:
                self._broken(connection.error)
            elif self._consumers.starts_now:
                self._renew_leases(now_ms)

    @property
    def next_due_ms(self) -> int:
        """The time at which to call :meth:`tick` next, by the clock of ``now_ms``."""
        return self._tick_times.next_due_ms

    def tick(self, now_ms: int) -> None:
        """Sends heartbeats, starts and renews leases, and ends what has expired, if due."""
        if self._tick_times.ticked(self.welcome.heartbeat_ms, now_ms):
            self.poll(now_ms)
        else:
            self._renew_leases(now_ms)

    def poll(self, now_ms: int) -> None:
        """Sends heartbeats and renewals, and ends expired leases and a silent connection."""
        self._consumers.expire(now_ms)
        self._renew_leases(now_ms)
        connection = self._connection
        if connection is None or connection.is_closed:
            return
        try:
            ping = connection.poll(now_ms, self.welcome.heartbeat_ms, self.welcome.liveness_ms)
        except LivenessExpired as error:
            self._send_now(m.Goaway(error.code, str(error)))
            self._events.append(Disconnected(error.code, str(error), 0))
        else:
            renewal = self._proof.renewal(connection, self._send_order.request_id, now_ms)
            self._control += filter(None, (ping, renewal))

    def data_to_send(self, now_ms: int) -> bytes:
        """Returns bytes for the queue manager, or b"" if nothing must be sent.

        A result has about SEND_BYTES. Call the method until it returns b"" or the socket is full.
        """
        parts, size = self._control[:], 0
        self._control.clear()
        connection = self._connection
        if connection is not None and connection.state is State.OPEN and self.failed is None:
            order, limits = self._send_order, self.welcome
            while size < SEND_BYTES and (message := order.next(limits, now_ms)) is not None:
                data = connection.send(message)
                parts.append(data)
                size += len(data)
                if type(message) is m.Piece:
                    break  # Short messages of the next call must not wait for more of them.
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _send_now(self, message: m.Message) -> None:
        connection = self._connection
        if connection is not None and not connection.is_closed:
            self._control.append(connection.send(message))

    def _broken(self, error: RemoteProtocolError) -> None:
        """Ends the client, because the queue manager would break the protocol again."""
        ended = broken_by(error, is_open=self.is_open)  # The goodbye closes the connection.
        self._send_now(m.Goaway(error.code, str(error)[:1_000]))
        self.end(ended)

    # Messages of the queue manager

    def _on_challenge(self, challenge: m.AuthChallenge, now_ms: int) -> None:
        self._send_now(self._proof.answer(challenge))

    def _on_welcome(self, welcome: m.Welcome, now_ms: int) -> None:
        self._proof.check(welcome, now_ms)
        self.welcome = welcome
        self._tick_times.restart(welcome.heartbeat_ms, now_ms)
        self._hello = self._hello._replace(session=welcome.session)  # resumes the session
        self.answers.welcomed(welcome)
        self._settles.connected_to(self.answers.home)
        self._events.append(Ready(welcome))

    def _on_goaway(self, goaway: m.Goaway, now_ms: int) -> None:
        ended = ended_by(goaway, can_renew=self._proof.can_change)
        if isinstance(ended, Disconnected):
            self._events.append(ended)
        else:
            self.end(ended)

    def _on_ping(self, ping: m.Ping, now_ms: int) -> None:
        self._send_now(m.Pong(ping.number))
