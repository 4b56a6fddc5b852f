"""The daemon: connects the sockets and the clock to the turns, all on one thread.

All data that arrives before the loop's next iteration is processed in one turn. The outcome is sent
to the sockets only after the turn is durable (:meth:`Turns.take_durable`).
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from qmgr_config.model import FRAME_OVERHEAD_BYTES, Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.access.token_renewal import OwnLogin
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.boot import Boot
from qmgrd.core.context.context import Dial, Outcome
from qmgrd.core.layout.clock import StoreClock
from qmgrd.core.layout.kv import Now, StoreFailed
from qmgrd.core.peer import Peer
from qmgrd.core.turn import TurnFailed, Turns
from qmgrd.net.connection_limits import ConnectionLimits
from qmgrd.net.door import Door
from qmgrd.net.large_frames import LargeFrames
from qmgrd.net.link_dial import dial_link
from qmgrd.net.listener import Listener, ListenFailed, listen, write_addresses
from qmgrd.net.logins import login_at, logins_of
from qmgrd.net.session import SocketSession, write_all
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.tls_service import TlsService
from qmgrd.net.token_keys import TokenKeys
from qmgrd.net.unsent import Unsent
from qmgrd.net.welcome import SOFTWARE, welcome_of
from qmgrd.process.notify import Notifier
from qmgrd.process.recovery import Recovery, log_all
from qmgrd.process.turn_timer import TurnTimer
from qmgrd.process.turn_times import TurnTimes
from qmgrd.snapshot.service import SnapshotService
from qmgrd.store.lmdb_store import LmdbStore, StoreReplaced

QUARANTINE_MS = 60_000
# Time that peers have, when the daemon stops, to read the data written to them.
DRAIN_MAX_MS = 2_000
LEAVE_MAX_MS = 250  # time that peers then have to close their end of the connection
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
    ) -> None:
        self.config = config
        self._is_maintenance = is_maintenance
        self._notifier = notifier or Notifier({})
        self.addresses: list[str] = []
        self._store = store
        self._admission = ConnectionLimits(config.listen, QUARANTINE_MS, self.now_ms())
        self._sessions = self._admission.sessions
        self._connections = 0
        self._recovery = Recovery(self._start_turns, self._now)
        self._turn_scheduled = False
        self._turn_times = TurnTimes()
        self._tasks: asyncio.TaskGroup | None = None
        self._dials: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._failure: BaseException | None = None
        self._door = Door(lambda: self._turn_scheduled)
        self._tls = TlsService(tls or TlsFiles(config.tls), self, self._door, self._in_turn)
        self._snapshots = SnapshotService(config, store, lambda: self._loop, self._in_turn)
        self._started_ms = self.now_ms()
        # Sessions that are not read until the turns have caught up.
        self._ahead: set[SocketSession] = set()
        self._turns = self._start_turns()
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
        self.unsent = Unsent(
            half_bytes,
            limits.whole_max_bytes + FRAME_OVERHEAD_BYTES,
            limits.liveness_ms,
            self._sessions,
        )

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
        self._clock = StoreClock(boot.clock_ms, boot.wall_us, downtime_max_ms, mono_ms, wall_us)
        self._welcome = welcome_of(self.config, boot)
        return self._now()

    def _now(self) -> Now:
        return self._clock.now(self.now_ms(), time.time_ns() // 1000)

    def _facts(self) -> dict[str, Any]:
        times = os.times()
        space = self._store.space()
        return {
            "software": SOFTWARE,
            "pid": os.getpid(),
            "uptime_ms": self.now_ms() - self._started_ms,
            "cpu_ms": round((times.user + times.system) * 1000),
            "connections": self._admission.open_count,
            "store_used_bytes": space.used_bytes,
            "store_map_bytes": space.map_bytes,
            "disk_free_bytes": space.disk_free_bytes,
            "listening": self.addresses,
            "turn_longest_us": self._turn_times.take_longest_us(),
            "turn_times_us": self._turn_times.histogram(),
            "certificates": self._tls.facts(),
        } | self._snapshots.facts()

    def _facts_of(self, connection: int) -> dict[str, Any]:
        session = self._sessions.get(connection)
        return {} if session is None else session.facts

    async def run(self) -> None:
        """Serves until :meth:`stop`.

        Raises:
            ListenFailed: The daemon cannot listen on an address.
            StoreFailed: The store failed. Stored data is intact, and a restart may help.
        """
        self._loop = asyncio.get_running_loop()
        loop = self._loop
        self._store.go_ahead(loop.call_soon_threadsafe, loop.call_later, self._landed)
        try:
            listeners = await listen(
                self.config,
                self._door,
                lambda: SocketSession(self, self._make_peer),
                lambda: self._tls.accept(self._make_peer),
            )
        except ListenFailed:
            self._turns.stop(self._now())  # Nothing was delivered, so the stop is a clean one.
            raise
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
            await self._stopped.wait()
            for listener in listeners:
                listener.close()
            if self._failure is None:
                await self._finish()
            for task in (*beats, *self._dials):
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
        if self._failure is not None or self._stopped.is_set():
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

    def _release_all(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._release(outcome)
            self._turn_times.end(time.monotonic_ns())

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, StoreReplaced):
            log.error("stopping: the store was taken away", error=str(error))
        else:
            log.error("stopping: stored data is intact; start the daemon again", error=str(error))
        self._failure = error
        self._notifier.send("STOPPING=1", status=f"failed: {error}")
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
            if isinstance(effect, Dial) and self._tasks is not None:
                task = self._tasks.create_task(self._dial(effect))
                self._dials.add(task)
                task.add_done_callback(self._dials.discard)
            elif not isinstance(effect, Dial):
                self._snapshots.take(effect)

    def _make_peer(
        self, session: SocketSession, dial: Dial | None = None, own_login: OwnLogin | None = None
    ) -> Peer:
        self._connections += 1
        return Peer(
            self._connections,
            self._turns.intake,
            self.config.limits,
            self._welcome,
            self._turns.tokens,
            self.now_ms(),
            dial=dial,
            admit=lambda hello: self._admission.admit(session, hello, self.now_ms()),
            admit_user=self._admit_user,
            has_token=lambda: self._admission.with_token.add(session),
            login=None if dial else login_at(self._logins, session),
            own_login=own_login,
        )

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
        goaway = m.Goaway(
            ErrorCode.INTERNAL_ERROR, "internal error; the queue manager restarts", 100
        )
        for session in list(self._sessions.values()):
            session.say_goodbye(goaway)
        if is_lost:
            self._fail(failed)
            return
        try:
            self._turns = self._recovery.start()
            self._timer.cancel()  # The restart has set the store clock again.
            self.frames.intake = self._turns.intake
        except Exception as error:  # The same bug or damage also makes the start fail.
            self._fail(StoreFailed(f"cannot restart: {type(error).__name__}: {error}"))
        else:
            self.want_turn()

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
            now_ms = self.now_ms()
            self._admission.tick(now_ms)
            self.frames.tick()
            self.unsent.tick(self.now_ms(), is_ahead=self._turns.intake.is_full)
            if self._turns.intake.is_room_short and not self.unsent.is_room_short:
                self.want_turn()  # Room may now be available for waiting requests.

    async def _finish(self) -> None:
        """Processes the received requests, sends goodbyes, and gives peers a little time to read
        them.
        """
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
        goodbye_ms = self.now_ms()
        while self._sessions and (waited_ms := self.now_ms() - goodbye_ms) < DRAIN_MAX_MS:
            unwritten = any(s.unwritten_bytes() for s in self._sessions.values())
            if waited_ms > LEAVE_MAX_MS and not unwritten:
                break
            await asyncio.sleep(0.01)
