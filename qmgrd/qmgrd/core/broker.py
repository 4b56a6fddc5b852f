"""The queue manager itself: accepts events, passes them to their owners, returns messages to send.

One turn, as its caller sees it:

    begin(tx, now) ─▶ opened, received, closed, dialled ... in order of arrival ─▶ end() ─▶ Outcome

Between begin and end, every change is written in the turn's transaction. The outcome must not leave
the process before that transaction is durable (see turn.py). Memory contains a cache of the store
and the state of open connections. After any failure, a new Broker starts from the store.
"""

from collections.abc import Callable
from typing import Any, get_args

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.connection import refusal
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError, RequestError
from qmgr_protocol.pieces import piece_bytes
from qmgrd.core import growth
from qmgrd.core.access.login import DIALLED, OPEN, Identity
from qmgrd.core.access.rights import Rights
from qmgrd.core.access.users import Users
from qmgrd.core.catalogue.boot import Boot
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context, Dial, Note, Outcome
from qmgrd.core.growth import GROWING
from qmgrd.core.jobs.due_work import DueWork
from qmgrd.core.jobs.group_refresh import refresh_groups
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.jobs.retention import RETENTION_PERIOD_MS
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Now, Store, Transaction
from qmgrd.core.limits.budget import DELIVERY, WORK, ClockNs, frozen_clock
from qmgrd.core.limits.timers import earliest_ms
from qmgrd.core.loading import load, lose_volatile, start_work
from qmgrd.core.puts.publications import Publications
from qmgrd.core.puts.store_room import StoreRoom
from qmgrd.core.queue.lease_number import LeaseNumbers
from qmgrd.core.queue.selection import compile_weight
from qmgrd.core.requests.audited import AUDITED, Auditor
from qmgrd.core.requests.operations import operations
from qmgrd.core.requests.queues import QueueAdmin
from qmgrd.core.requests.reads import READS, SELECTING
from qmgrd.core.requests.revocations import Revocations
from qmgrd.core.requests.rights import Guard
from qmgrd.core.requests.services import Services
from qmgrd.core.requests.template_pass import TemplatePass
from qmgrd.core.requests.user_sessions import UserSessions
from qmgrd.core.returns.audit import end_audit, put_audit, trim_audit
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.returns.events import put_events
from qmgrd.core.returns.returns import CONNECTION_LOST, Returns
from qmgrd.core.sessions.connection import ConnectionFacts, Connections, no_facts
from qmgrd.core.sessions.delivery import Delivery
from qmgrd.core.sessions.link_rotation import LinkRotation
from qmgrd.core.sessions.request_part import Arrived, UnitPutPart
from qmgrd.core.sessions.session import RequestNotAllowed, Session, SessionFenced, error_of
from qmgrd.core.sessions.settlements import Settlements
from qmgrd.core.sessions.streams import Streams
from qmgrd.core.sessions.subscriptions import Subscriptions
from qmgrd.core.sessions.turn_end import write_turn
from qmgrd.core.sessions.units import Units
from qmgrd.core.sessions.unused import Unused

TIMERS_PER_TURN = 1_000
_NO_REQUESTS = frozenset({*get_args(m.Answer), m.OperationUnknown})
_COUNTED = GROWING | READS | {*SELECTING}


class Broker:
    """A queue manager on a store. The docstring of this module describes a turn."""

    def __init__(
        self,
        config: Config,
        boot_: Boot,
        tx: Transaction,
        now: Now,
        facts: Callable[[], dict[str, Any]] = dict,
        facts_of: ConnectionFacts = no_facts,
        clock_ns: ClockNs = frozen_clock,
        *,
        is_maintenance: bool = False,
    ) -> None:
        self.context = context = Context(
            config, config.queue_manager.name, boot_.store_id, boot_.number, boot_.salt, clock_ns
        )
        context.tx, context.now, context.is_maintenance = tx, now, is_maintenance
        context.stamper.last_us = boot_.stamp_us
        context.turn_number = boot_.turn_number
        self.sessions: dict[int, Session] = {}  # sessions by connection
        self._answering: dict[int, Session] = {}  # sessions to answer at the end of the turn
        self._resumable: dict[bytes, int] = {}  # connection numbers by session id
        self._secret = boot_.secret
        self.catalogue = Catalogue(context)
        self.users = Users(context)
        self._rights = Rights(context, self.catalogue, self.users)
        self._guard = Guard(self.catalogue, self._rights)
        self.auditor = Auditor(context, self.users, self._rights)
        self.jobs = Jobs(context, self.catalogue, self._rights)
        self.dead_letters = DeadLetters(context, self.catalogue)
        returns = Returns(context, self.dead_letters)
        self.units = Units(context, self.catalogue, returns, self.dead_letters)
        self.settlements = Settlements(
            context, self.catalogue, returns, self.units, self._answering
        )
        self.delivery = Delivery(context, self.catalogue, self.sessions, self.settlements)
        self.template_pass = TemplatePass(context, self.catalogue, self.delivery)
        self.due_work = DueWork(context, self.catalogue, self.dead_letters)
        self.streams = Streams(
            context, self.catalogue, self.jobs, self.units, self.dead_letters, self._answering
        )
        self.admin = QueueAdmin(
            context, self.catalogue, self.jobs, self.delivery, self.streams, self.users, facts
        )
        self._user_sessions = UserSessions(context, self._guard, self.auditor)
        self.connections = Connections(context, self.sessions, facts_of, self.closed)
        self._unclean = boot_.unclean
        self._room = StoreRoom(context)
        load(context, self.catalogue, self.jobs, self.users, unclean=boot_.unclean)
        self.streams.load(boot_.producers, has_users=not self.users.is_open)
        self.publications = Publications(context, self.catalogue, self.dead_letters)
        self.subscriptions = Subscriptions(context, self.catalogue, self.jobs, self.delivery)
        self.unused = Unused(context, self.catalogue, self.jobs, self.delivery)
        self.link_rotation = LinkRotation(context, self.catalogue.links)
        self._revocations = Revocations(
            self.catalogue, self.users, self._rights, self._guard, self.delivery, self.connections
        )
        self.subscriptions.load()
        self._revocations.load()
        self.unused.load()
        lose_volatile(context, self.catalogue, self.jobs)
        self.services = Services(
            context,
            self.catalogue,
            self.jobs,
            self.dead_letters,
            self.delivery,
            self.settlements,
            self.streams,
            self.units,
            self.subscriptions,
            self.connections,
            self.template_pass,
            self.admin,
            self.users,
            self._guard,
            self._secret,
        )
        self._handlers = operations(self.services)
        start_work(context, self.catalogue, self.jobs)
        context.timers.at(now.ms + RETENTION_PERIOD_MS, self._retention)

    def begin(self, tx: Transaction, now: Now, store: Store) -> None:
        """Begins a turn of *store*."""
        context = self.context
        context.tx, context.now, context.wrote, context.working = tx, now, False, None
        context.turns += 1
        map_bytes = self._room.divide(store)
        self.auditor.begin_turn()
        context.history.begin(now, map_bytes, is_cramped=context.is_cramped)

    def opened(
        self,
        connection: int,
        hello: m.Hello,
        session_id: bytes,
        identity: Identity = OPEN,
        address: str = "",
    ) -> None:
        """Registers a connection that a peer opened from *address*.

        A session has one connection. An older one is closed, and its leased messages return.
        """
        if not self.users.knows(identity):  # The users have changed since the login.
            self.context.close(connection, ErrorCode.LOGIN_REQUIRED, "log in again")
            self.auditor.login_refused(identity, address, hello.name, ErrorCode.LOGIN_REQUIRED)
            return
        access = self.users.accesses.get(identity.user)
        if not self.users.bindings.admit(connection, hello, identity):
            self.auditor.login_refused(identity, address, hello.name, ErrorCode.PEER_USER_WRONG)
            return
        if (other := self._resumable.get(session_id)) is not None:
            self._close_for_error(min(other, connection), SessionFenced())
            if other > connection:
                return
        if not self._user_sessions.admits(access, connection):
            return
        self._resumable[session_id] = connection
        session = self.sessions[connection] = Session(
            connection,
            hello.name,
            hello.store_id,
            LeaseNumbers(self._secret, session_id, self.context.boot + connection),
            None,
            hello.software,
            self.context.now.ms,
            identity,
            address,
            access,
            self._rights.is_enforced,
            frame_bytes=hello.frame_max_bytes,
            piece_bytes=piece_bytes(hello.piece_max_bytes),
        )
        self._user_sessions.join(session)
        self.auditor.opened(session)

    def dialled(self, dial: Dial, connection: int, welcome: m.Welcome) -> None:
        """Registers a connection that a link dialled."""
        found = self.catalogue.links.get(dial.link)
        path = found.path_of(dial) if found is not None else None
        if found is None or path is None:
            why = "the link no longer needs this connection"
            self.context.close(connection, ErrorCode.CANCELLED, why)
            return
        session = Session(
            connection,
            welcome.name,
            welcome.store_id,
            LeaseNumbers(self._secret, b"", 0),
            path,
            welcome.software,
            self.context.now.ms,
            DIALLED,
        )
        self._user_sessions.join_dialled(session, welcome.name)
        self.sessions[connection] = session
        found.dialled(path, connection, welcome)

    def dial_failed(self, dial: Dial, why: str, goaway: m.Goaway | None = None) -> None:
        """Reports to a link that its connection attempt failed."""
        found = self.catalogue.links.get(dial.link)
        if found is not None and (path := found.path_of(dial)) is not None:
            found.lost(path, why, 0 if goaway is None else goaway.code)

    def closed(self, connection: int, why: str) -> None:
        """Releases everything that depends on a connection."""
        if (session := self.sessions.pop(connection, None)) is None:
            return
        self.auditor.closed(session)
        self._resumable.pop(session.numbers.session_id, None)
        self._user_sessions.leave(session)
        if session.path is not None and session.path.connection == connection:
            session.path.link.lost(session.path, why)
        self.delivery.close(session)
        self.subscriptions.close(session)
        self.streams.close(session)

    def received(self, connection: int, message: Arrived) -> None:
        """Handles *message*, or replies with an error. Never raises for a fault of the peer."""
        session = self.sessions.get(connection)
        if session is None:
            return  # The connection was closed earlier in this turn.
        try:
            if type(message) in _NO_REQUESTS:
                self._take_answer(session, message)
            else:
                self._handle(session, message)
        except RemoteProtocolError as error:
            self._close_for_error(connection, error)

    def _take_answer(self, session: Session, message: Arrived) -> None:
        if type(message) is m.OperationUnknown:
            if (refused := refusal(message)) is not None:
                self.context.send(session.connection, refused)
            return
        if session.path is None:
            raise RequestNotAllowed(type(message).__name__)
        answer: Any = message  # Type checkers do not follow a test with a set.
        session.path.answered(session.connection, answer)

    def _handle(self, session: Session, message: Arrived) -> None:
        access = session.access
        if access is not None:
            try:
                self._guard.check(session, message)
            except RequestError as error:
                self._refuse_unauthorized(session, message, error)
                return
        self.context.gives_hints = access is None or access.is_administrator
        begun = self.auditor.begin(session, message) if type(message) in AUDITED else None
        code = 0
        try:
            self._handle_allowed(session, message)
        except RequestError as error:
            assert isinstance(message, m.MessageWithId), message
            code = error.code
            self.context.send(session.connection, error_of(message.request_id, error))
            if isinstance(error, rows.RowDamaged):
                self.context.note("error", "the store is damaged", why=error.text)
        if begun is not None:
            self.auditor.end(begun, session, code)

    def _refuse_unauthorized(self, session: Session, message: Arrived, error: RequestError) -> None:
        self.auditor.refused(session, message)
        self.streams.use_up_bodies(session, message)
        if type(message) is m.LinkOpen:
            self.context.peers.refuse(session.name, session.store_id, error)
        if isinstance(message, UnitPutPart):
            self.units.put_part(session, message, error)
        elif isinstance(message, m.MessageWithId):
            self.context.send(session.connection, error_of(message.request_id, error))
        elif isinstance(message, m.Put):
            self.streams.refuse(session, message, error)
        else:
            raise RequestNotAllowed(type(message).__name__)

    def _close_for_error(self, connection: int, error: RemoteProtocolError) -> None:
        self.context.close(connection, error.code, str(error))
        self.closed(connection, str(error))

    def _handle_allowed(self, session: Session, message: Arrived) -> None:
        kind = type(message)
        if kind not in _COUNTED:
            self._handlers[kind](session, message)
            return
        if kind in GROWING:
            growth.check(self, message)
        if isinstance(message, SELECTING) and message.where:
            # The selector may have to be compiled.
            self.context.count_read(compile_weight(message.where), 0)
        self._handlers[kind](session, message)
        if kind in READS:
            self.context.unread_replies.count_answer(session.connection, self.context.outcome.sends)

    def answer_snapshot(self, connection: int, request_id: int, result: Any) -> None:
        """Answers a snapshot request with a manifest or a RequestError."""
        self.auditor.snapshot_ended(self.sessions.get(connection), result)
        if connection not in self.sessions:
            return
        is_error = isinstance(result, RequestError)
        answer = error_of(request_id, result) if is_error else m.Ok(request_id, result)
        self.context.send(connection, answer)

    def end(self) -> Outcome:
        """Runs timers and jobs, delivers messages, writes changes. Returns the outcome."""
        context = self.context
        turn_rows, budget = context.turn_rows, context.budget
        self._revocations.run(self.sessions.values())
        budget.allow(WORK)
        if not context.is_maintenance:
            context.timers.ring(context.now.ms, TIMERS_PER_TURN, budget, context.begin_work)
            self.due_work.run()
            self.subscriptions.end_leaving()
            self.publications.run()
        self.settlements.return_leases()
        context.working = None
        self.template_pass.run()
        self.jobs.run()
        context.working = None
        for connection, error in self.streams.drain():
            self._close_for_error(connection, error)
        self.link_rotation.run()
        refresh_groups(context, self.jobs)
        budget.allow(DELIVERY)
        # Half of a turn is reserved for consumers. Otherwise, puts that fill every turn would
        # starve them.
        self.delivery.pump(max(turn_rows, context.rows + turn_rows // 2))
        context.working = None
        if gone := self.jobs.take_producers_gone():
            self.streams.forget_producers(gone)
        self.streams.end_turn()
        # Putting events changes queues and must precede the last refresh. Later events wait for the
        # next turn.
        put_events(context, self.catalogue, self.dead_letters)
        self.publications.count()
        put_audit(context, self.catalogue, self.dead_letters)
        refresh_groups(context, self.jobs)
        context.working = None
        self._answer_all()
        write_turn(context, self.unused, self.streams.producer_count)
        self._room.end_turn()
        outcome, context.outcome = context.outcome, Outcome([], [], [], [])
        return outcome

    def write_changes(self) -> Outcome:
        """Writes changes without any other work. Returns the notes to log."""
        refresh_groups(self.context, self.jobs)
        write_turn(self.context, self.unused, self.streams.producer_count)
        return Outcome([], [], [], self.take_notes())

    def take_notes(self) -> list[Note]:
        """Removes the collected notes from the outcome and returns them."""
        outcome = self.context.outcome
        self.context.outcome = outcome._replace(notes=[])
        return outcome.notes

    def _answer_all(self) -> None:
        for connection, session in self._answering.items():
            if connection not in self.sessions:
                continue  # The connection was closed in this turn.
            if session.answers:
                self.streams.answer(session)
            if session.settled_id and (settled := session.settled()) is not None:
                self.context.send(connection, settled)
        self._answering.clear()

    @property
    def busy(self) -> bool:
        """Whether another turn is needed immediately."""
        links = self.streams.links
        return bool(
            self.context.awake_queues
            or self.context.events
            or self.jobs.busy
            or self.settlements.busy
            or self.template_pass.is_busy
            or links.is_busy
            or self.context.piece_sender.can_go_on
            or (
                not self.context.is_maintenance
                and (self.publications.can_go_on or self.subscriptions.can_go_on)
            )
        )

    def next_timer_ms(self) -> int | None:
        """Returns the store clock time at which the next turn is due, or None."""
        context = self.context
        if context.is_maintenance:
            return context.history.due_ms
        timer_ms, schedule_ms = context.timers.next_ms(), context.schedule.next_ms
        return earliest_ms(timer_ms, schedule_ms, context.history.due_ms, context.audit.due_ms)

    def shutdown(self) -> None:
        """Closes all connections. :attr:`busy` becomes false once all leases have ended."""
        for connection, session in sorted(self.sessions.items()):
            # A shutdown does not count as a failed delivery.
            self.units.close(session, CONNECTION_LOST)
            self.streams.links.report_commits(session)
            why = "the queue manager stops"
            self.context.close(connection, ErrorCode.SHUTTING_DOWN, why, 1_000)
            self.closed(connection, "shutdown")
        end_audit(self.context.audit)

    def mark_clean(self) -> None:
        """Records, in this last turn, that no lease is open."""
        if self._unclean:
            for queue in self.catalogue.by_id.values():
                # Messages from before the crash may still be stored.
                self.context.mark_changed(queue)
        rows.put(self.context.tx, keys.CLEAN, self.context.boot.to_bytes(8, "big"))
        # Also writes the clock, because units of work that were lost used timestamps.
        self.context.wrote = True

    def _retention(self) -> None:
        trim_audit(self.context, self.catalogue)
        self.jobs.start_hourly()
        self.context.timers.at(self.context.now.ms + RETENTION_PERIOD_MS, self._retention)
