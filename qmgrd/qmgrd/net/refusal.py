"""Serves the sockets of a process that refuses each connection with a reason."""

import asyncio
import os
import time
from collections.abc import Callable

import structlog

from qmgr_config.model import FRAME_OVERHEAD_BYTES, Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.intake import Intake
from qmgrd.core.peer import Peer
from qmgrd.core.sessions.session_token import SessionTokens
from qmgrd.net.connection_limits import ConnectionLimits
from qmgrd.net.door import Door
from qmgrd.net.large_frames import LargeFrames
from qmgrd.net.listener import Listener, Sockets, close_all
from qmgrd.net.session import SocketSession
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.tls_service import TlsService
from qmgrd.net.unsent import Unsent
from qmgrd.net.welcome import SOFTWARE

TICK_S = 0.25

log = structlog.get_logger()


class Refuser:
    """Answers each hello with a goodbye. The limits of connections are those of a daemon.

    The peer need not log in, so the goodbye must not contain secrets.
    """

    def __init__(self, config: Config, tls: TlsFiles, goodbye: Callable[[], m.Goaway]) -> None:
        limits = config.limits
        self._config = config
        self._goodbye = goodbye
        self._admission = ConnectionLimits(config.listen, 0, self.now_ms())
        sessions = self._admission.sessions
        self._intake = Intake()  # A connection that is refused leaves nothing in it.
        half_bytes = limits.buffers_max_bytes // 2
        self.frames = LargeFrames(half_bytes, self._intake, sessions)
        longest_bytes = limits.whole_max_bytes + FRAME_OVERHEAD_BYTES
        self.unsent = Unsent(half_bytes, longest_bytes, limits.liveness_ms, sessions)
        self._door = Door(lambda: False)
        self._tls = TlsService(tls, self, self._door, lambda call: None)
        self._tokens = SessionTokens(os.urandom(32), os.urandom(16))
        name = config.queue_manager.name
        self._welcome = m.Welcome(m.VERSION, name, bytes(16), 0, [], SOFTWARE)
        self._count = 0
        self._listeners: list[Listener] = []

    async def serve(self, sockets: Sockets) -> None:
        """Refuses connections until the task is cancelled."""
        self._listeners = sockets.listeners(
            self._door,
            lambda: SocketSession(self, self._make_peer),
            lambda: self._tls.accept(self._make_peer),
        )
        refresh = asyncio.create_task(self._tls.refresh())
        try:
            while True:
                await asyncio.sleep(TICK_S)
                self._admission.tick(self.now_ms())
                self.frames.tick()
        finally:
            refresh.cancel()
            close_all(self._listeners)
            await self._admission.cut_off_all()

    def _make_peer(self, session: SocketSession) -> Peer:
        self._count += 1
        return Peer(
            self._count,
            self._intake,
            self._config.limits,
            self._welcome,
            self._tokens,
            self.now_ms(),
            admit=lambda hello: self._goodbye(),
        )

    def now_ms(self) -> int:
        """Returns the monotonic clock in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def want_turn(self) -> None:
        """Does nothing, because there are no turns."""

    def session_entered(self, session: SocketSession) -> None:
        """Registers a new connection."""
        self._admission.entered(session, self.now_ms())

    def session_advanced(self, session: SocketSession) -> None:
        """Records progress in the handshake of *session*."""
        self._admission.advanced(session)

    def session_ahead(self, session: SocketSession) -> None:
        """Does nothing, because no connection opens."""

    def session_blocked(self, session: SocketSession, *, is_blocked: bool) -> None:
        """Does nothing, because a goodbye is short."""

    def session_failed(self, session: SocketSession, error: Exception) -> None:
        """Closes a connection after an internal error."""
        log.error("internal error on a connection", address=session.address, exc_info=error)
        goaway = m.Goaway(ErrorCode.INTERNAL_ERROR, "internal error; see the log")
        session.cut_off(goaway, is_silent=True)

    def session_closed(self, session: SocketSession, why: str) -> None:
        """Unregisters a closed connection."""
        self._admission.left(session, why)
