"""The daemon: connects the sockets and the clock to the turns, all on one thread.

All data that arrives before the loop's next iteration is processed in one turn. The outcome is sent
to the sockets only after the turn is durable (:meth:`Turns.take_durable`).
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any

import structlog

from qmgr_config.model import FRAME_OVERHEAD_BYTES, Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.access.token_renewal import OwnLogin
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.boot import Boot
from qmgrd.core.context.context import BeginSwitchOver, Dial, Outcome
from qmgrd.core.layout.clock import StoreClock
from qmgrd.core.layout.kv import Now, StoreFailed
from qmgrd.core.peer import Peer
from qmgrd.core.turn import TurnFailed, Turns
from qmgrd.net.connection_limits import ConnectionLimits
from qmgrd.net.door import Door
from qmgrd.net.farewell import wait_for_peers
from qmgrd.net.large_frames import LargeFrames
from qmgrd.net.link_dial import dial_link
from qmgrd.net.listener import Listener, ListenFailed, Sockets, bind, close_all, write_addresses
from qmgrd.net.logins import login_at, logins_of
from qmgrd.net.session import SocketSession, write_all
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.tls_service import TlsService
from qmgrd.net.token_keys import TokenKeys
from qmgrd.net.unsent import Unsent
from qmgrd.net.welcome import SOFTWARE, welcome_of
from qmgrd.process.effects import Effects
from qmgrd.process.facts import process_facts
from qmgrd.process.failure import report_failure
from qmgrd.process.journal_state import JournalState, moved, switch_over
from qmgrd.process.notify import Notifier
from qmgrd.process.recovery import Recovery, log_all
from qmgrd.process.turn_timer import TurnTimer
from qmgrd.process.turn_times import TurnTimes
from qmgrd.snapshot.service import SnapshotService
from qmgrd.store.lmdb_store import LmdbStore
from qmgrd.store.log import Fenced

QUARANTINE_MS = 60_000
LOOK_S = 1.0  # time between two checks of the connections

log = structlog.get_logger()


class Daemon:
    """A queue manager that serves its sockets.

    Invariant: ``_sessions`` contains each open connection once. At most one turn is scheduled.
    """

    def __init__(
        self,
        config: Config,
        store: LmdbStore,
        notifier: Notifier | None = None,
        tls: TlsFiles | None = None,
        token_keys: TokenKeys | None = None,
        *,
        is_maintenance: bool = False,
        sockets: Sockets | None = None,
        journal: JournalState | None = None,
    ) -> None:
        self.config, self._is_maintenance = config, is_maintenance
        self._store, self._sockets, self._journal = store, sockets, journal
        self._notifier = notifier or Notifier({})
        self.addresses: list[str] = []
        self._admission = ConnectionLimits(config.listen, QUARANTINE_MS, self.now_ms())
        self._sessions = self._admission.sessions
        self._numbers = count(1)  # of connections
        self._recovery = Recovery(self._start_turns, self._now)
        self._turn_scheduled = False
        self._tasks: asyncio.TaskGroup | None = None
        self._turn_times = TurnTimes()
        self._stopped = asyncio.Event()
        self._failure: BaseException | None = None
        self._door = Door(lambda: self._turn_scheduled)
        self._tls = TlsService(tls or TlsFiles(config.tls), self, self._door, self._in_turn)
        self._snapshots = SnapshotService(config, store, lambda: self._loop, self._in_turn)
        self._effects = Effects(self._dial, self._switch_over, self._snapshots.take)
        self._started_ms = self.now_ms()
        # Sessions that are not read until the turns have caught up.
        self._ahead: set[SocketSession] = set()
        self._turns = self._start_turns()
        if journal is not None:
            self._turns.intake.event(0, journal.report_start)
        self._timer = TurnTimer(
            lambda: self._turns.next_timer_ms(), lambda: self._now().ms, self.want_turn
        )
        secret = self._turns.boot.secret
        self._logins = logins_of(lambda: self._turns.broker.users, secret, config.auth)
        self._token_keys = token_keys or TokenKeys(config.auth.tokens)
        self._token_keys.give_to(self._logins.tokens)
        limits = config.limits
        half_bytes = limits.buffers_max_bytes // 2
        self.frames = LargeFrames(half_bytes, self._turns.intake, self._sessions)
        longest_bytes = limits.whole_max_bytes + FRAME_OVERHEAD_BYTES
        self.unsent = Unsent(half_bytes, longest_bytes, limits.liveness_ms, self._sessions)

    def now_ms(self) -> int:
        """Returns the monotonic clock in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def _start_turns(self) -> Turns:
        turns = Turns(
            self.config,
            self._store,
            self._set_clock,
            os.urandom(16),
            os.urandom(32),
            self._facts,
            self._facts_of,
            time.perf_counter_ns,
            lambda number: self.unsent.of(number),
            is_maintenance=self._is_maintenance,
        )
        if self._store.replayed:
            log.info("replayed the journal", records=self._store.replayed)
        log_all(turns.notes)
        return turns

    def _set_clock(self, boot: Boot) -> Now:
        mono_ms, wall_us = self.now_ms(), time.time_ns() // 1000
        downtime_max_ms = self.config.queue_manager.downtime_max_ms
        away_us, self._store.away_us = self._store.away_us, None  # It counts once.
        last_us = boot.wall_us if away_us is None else wall_us - away_us
        self._clock = StoreClock(boot.clock_ms, last_us, downtime_max_ms, mono_ms, wall_us)
        self._welcome = welcome_of(self.config, boot)
        return self._now()

    def _now(self) -> Now:
        return self._clock.now(self.now_ms(), time.time_ns() // 1000)

    def _facts(self) -> dict[str, Any]:
        facts = {
            "software": SOFTWARE,
            "connections": self._admission.open_count,
            "listening": self.addresses,
            "certificates": self._tls.facts(),
        }
        uptime_ms = self.now_ms() - self._started_ms
        facts |= process_facts(self._store, self._turn_times, uptime_ms) | self._snapshots.facts()
        return facts | (self._journal.facts() if self._journal else {})

    def _facts_of(self, connection: int) -> dict[str, Any]:
        return self._sessions[connection].facts if connection in self._sessions else {}

    async def run(self) -> None:
        """Serves until :meth:`stop`.

        Raises:
            ListenFailed: The daemon cannot listen on an address.
            StoreFailed: The store failed. Stored data is intact, and a restart may help.
        """
        loop = self._loop = asyncio.get_running_loop()
        self._store.go_ahead(loop.call_soon_threadsafe, loop.call_later, self._landed)
        try:
            sockets = self._sockets or await bind(self.config)
            listeners = sockets.listeners(
                self._door,
                lambda: SocketSession(self, self._make_peer),
                lambda: self._tls.accept(self._make_peer),
            )
        except ListenFailed:
            self._turns.stop(self._now())  # Nothing was delivered, so the stop is a clean one.
            raise
        if self._sockets is None:
            sockets.close()  # The listeners have copies.
        self.addresses = [listener.name for listener in listeners]
        write_addresses(self.config.queue_manager.data_dir, self.addresses)
        log.info(
            "listening",
            addresses=self.addresses,
            boot=self._turns.boot.number,
            name=self.config.queue_manager.name,
        )
        self._notifier.ready(
            f"{self.config.queue_manager.name} serves at {', '.join(self.addresses)}",
            self.config.limits.liveness_ms,  # longer than any acceptable write of the store to disk
        )
        self._notifier.signal_alive(self._loop)
        try:
            await self._serve(listeners)
        finally:
            self._snapshots.close()
            self._timer.cancel()
            await self._admission.cut_off_all()
        if self._failure is not None:
            raise self._failure

    async def _serve(self, listeners: list[Listener]) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            keys = self._token_keys.keep_fresh(self._logins.tokens)
            regular = self._heartbeat(), self._look(), self._tls.refresh(), keys
            beats = [tasks.create_task(work) for work in regular]
            if not self._is_maintenance:
                self._snapshots.look()
            self.want_turn()
            try:
                await self._stopped.wait()
            finally:
                close_all(listeners)
            if self._failure is None:
                await self._finish()
            for task in (*beats, *self._effects.tasks):
                task.cancel()

    def stop(self) -> None:
        """Makes :meth:`run` end after a clean shutdown."""
        self._notifier.send("STOPPING=1", status="finishing received requests")
        self._stopped.set()

    def want_turn(self) -> None:
        """Schedules a turn for the next iteration of the loop, once the daemon is ready."""
        if not self._turn_scheduled and self._failure is None and self._tasks is not None:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        if self._failure is not None or self._stopped.is_set() or not self._store.may_begin():
            return
        self._run_turn()
        if self._turns.has_work:
            self.want_turn()
        else:
            self._timer.set()

    def _run_turn(self) -> None:
        self._turn_times.begin(time.monotonic_ns())
        try:
            self._turns.intake.set_room(self.unsent.room_bytes(self.now_ms()))
            self._turns.run_ahead(self._now())
            self._release_all(self._turns.take_durable())
            if self._ahead:
                self._ahead = {session for session in self._ahead if not session.read_on()}
            self.frames.go_on()
            self._snapshots.give_way()
        except TurnFailed as failed:
            self._recover(failed)
        except StoreFailed as failed:
            self._fail(failed)
        except Exception as error:
            # This is the outer edge of a turn. A bug in the shell also ends the daemon.
            self._fail(error)

    def _landed(self, error: StoreFailed | None) -> None:
        """Sends the outcomes of turns that are now durable, or ends the daemon after an error."""
        try:
            if error is not None:
                raise error
            self._release_all(self._turns.take_durable())
        except Exception as failed:  # The edge of a turn, as above.
            self._fail(failed)
        if self._turns.has_work:
            self.want_turn()
        else:
            self._timer.set()  # It may have rung while no turn could begin.

    def _release_all(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._release(outcome)
            self._turn_times.end(time.monotonic_ns())

    def _fail(self, error: BaseException) -> None:
        report_failure(error, self._notifier)
        if isinstance(error, Fenced):
            self._say_goodbye(moved(error, self.config.queue_manager.name))
        self._failure = error
        self._stopped.set()

    def _release(self, outcome: Outcome) -> None:
        """Sends the messages of a durable turn."""
        write_all(self._sessions, outcome.sends)
        for number, goaway in outcome.closes:
            session = self._sessions.get(number)
            if session is not None:
                session.say_goodbye(goaway)
        for note in outcome.notes:
            self._admission.log.write_note(note)
        for effect in outcome.effects:
            self._effects.start(effect, self._tasks)

    def _make_peer(
        self, session: SocketSession, dial: Dial | None = None, own_login: OwnLogin | None = None
    ) -> Peer:
        return Peer(
            next(self._numbers),
            self._turns.intake,
            self.config.limits,
            self._welcome,
            self._turns.tokens,
            self.now_ms(),
            dial=dial,
            admit=partial(self._admit, session),
            admit_user=self._admit_user,
            has_token=lambda: self._admission.with_token.add(session),
            login=None if dial else login_at(self._logins, session),
            own_login=own_login,
        )

    def _admit(self, session: SocketSession, hello: m.Hello) -> m.Goaway | None:
        refusal = self._journal.refusal() if self._journal is not None else None
        return refusal or self._admission.admit(session, hello, self.now_ms())

    def _admit_user(self, user: str) -> m.Goaway | None:
        access = self._turns.broker.users.accesses.get(user)
        return None if access is None else access.connection_refusal()

    def session_entered(self, session: SocketSession) -> None:
        """Registers a new connection."""
        self._admission.entered(session, self.now_ms())

    def session_advanced(self, session: SocketSession) -> None:
        """Records progress in the handshake of *session*."""
        self._admission.advanced(session)

    def session_ahead(self, session: SocketSession) -> None:
        """Resumes reading from *session* once the turns have caught up."""
        self._ahead.add(session)

    def session_blocked(self, session: SocketSession, *, is_blocked: bool) -> None:
        """Stops processing for a connection while its peer has too much unread data, and resumes
        processing afterwards.
        """
        if is_blocked:
            self._turns.intake.block(session.peer.number)
        else:
            self._turns.intake.unblock(session.peer.number)
            self.want_turn()

    def session_failed(self, session: SocketSession, error: Exception) -> None:
        """Closes a connection after an internal error, and refuses its peer for a while."""
        peer, address = session.peer.peer_name, session.address
        log.error("internal error on a connection", peer=peer, address=address, exc_info=error)
        self._admission.keep_out(session, self.now_ms())
        why = "internal error of the queue manager on this connection; see its log"
        session.cut_off(m.Goaway(ErrorCode.INTERNAL_ERROR, why), is_silent=True)

    def session_closed(self, session: SocketSession, why: str) -> None:
        """Unregisters a closed connection."""
        self._admission.left(session, why)
        self.want_turn()

    async def _dial(self, effect: Dial) -> None:
        if self._admission.is_kept_out(effect.link, self.now_ms()):
            why = "a message of this peer caused an internal error; see the log"
        else:
            why = await dial_link(effect, self.config.link, self, self._tls, self._make_peer)
        if why:
            self._in_turn(lambda broker: broker.dial_failed(effect, why))

    async def _switch_over(self, wanted: BeginSwitchOver) -> None:
        result = await switch_over(self._journal, wanted)
        self._in_turn(lambda broker: broker.admin.answer_switch_over(wanted, result.answer))
        if result.is_begun:  # The last turns send the answer.
            self._stopped.set()

    def _in_turn(self, call: Callable[[Broker], None]) -> None:
        self._turns.intake.event(0, call)
        self.want_turn()

    def _recover(self, failed: TurnFailed) -> None:
        """Restarts the core from the store, without the connection that caused the failure."""
        log.error("a turn failed and was rolled back; restarting from the store", exc_info=failed)
        self._turn_times.forget()
        now_ms = self.now_ms()
        is_lost = self._recovery.add(failed, now_ms)
        guilty = self._sessions.get(failed.connection)
        if guilty is not None:
            self._admission.keep_out(guilty, now_ms)
        why = "internal error; the queue manager restarts"
        self._say_goodbye(m.Goaway(ErrorCode.INTERNAL_ERROR, why, 100))
        if is_lost:
            self._fail(failed)
            return
        try:
            self._turns = self._recovery.start()
            self._timer.cancel()  # The restart has set the store clock again.
            self.frames.intake = self._turns.intake
        except Exception as error:  # The same bug or damage also makes the start fail.
            why = f"cannot restart: {type(error).__name__}: {error}"
            self._fail(error if isinstance(error, Fenced) else StoreFailed(why))
        else:
            self.want_turn()

    def _say_goodbye(self, goaway: m.Goaway) -> None:
        for session in list(self._sessions.values()):
            session.say_goodbye(goaway)

    async def _heartbeat(self) -> None:
        period_ms = self.config.limits.heartbeat_ms / 4
        while True:
            due_ms = self.now_ms() + period_ms
            await asyncio.sleep(period_ms / 1000)
            try:
                self._store.check()
            # The store was removed. A turn would detect this, but none ran.
            except StoreFailed as failed:
                self._fail(failed)
                return
            now_ms = self.now_ms()
            if now_ms - due_ms > period_ms:
                continue  # The loop was delayed, so heartbeats may still be unread in the sockets.
            for session in list(self._sessions.values()):
                session.poll(now_ms)

    async def _look(self) -> None:
        """Periodically disconnects peers that use resources and make no progress."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._admission.tick(self.now_ms())
            if self._journal is not None and (goaway := self._journal.refusal()):
                self._say_goodbye(goaway)
            self.frames.tick()
            self.unsent.tick(self.now_ms(), is_ahead=self._turns.intake.is_full)
            if self._turns.intake.is_room_short and not self.unsent.is_room_short:
                self.want_turn()  # Room may now be available for waiting requests.

    async def _finish(self) -> None:
        """Processes the received requests, and gives peers a little time to read goodbyes."""
        for session in self._sessions.values():
            session.pause_reading()
        while self._turns.intake and self._failure is None:
            self._run_turn()
        if self._failure is not None:
            return
        try:
            self._release_all(self._turns.settle())
            outcomes = self._turns.stop(self._now())
        except (TurnFailed, StoreFailed) as failed:
            self._fail(failed)
            return
        for outcome in outcomes:
            self._release(outcome)
        await wait_for_peers(self._sessions, self.now_ms)
