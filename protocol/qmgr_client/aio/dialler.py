"""The dialler keeps a client connected: after a loss, it backs off and connects again.

A queue manager with standbys has several addresses. The dialler tries all of them in a round, one
immediately after another, and pauses between rounds. A round begins at the address that worked
last. The pauses stay short while a standby answers, because a standby takes over within seconds.
"""

import asyncio
import errno
import os
import random
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from qmgr_client.address import Address, joined
from qmgr_client.aio.session import Session, Wire
from qmgr_client.errors import GOODBYE, ConnectFailed
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.tls import TlsFailed, TlsOptions
from qmgr_protocol.tls import explained as tls_explained

BACK_OFF_MIN_MS = 100
BACK_OFF_MAX_MS = 10_000
STANDBY_MAX_MS = 500  # maximum back-off while a standby answers
DIAL_MAX_MS = 10_000  # maximum time in which to connect and receive the welcome
# The same in the first round of several addresses. The time doubles in each round.
DIAL_MIN_MS = 2_000
TLS_HANDSHAKE_MAX_S = 10  # The default of asyncio, a minute, exceeds DIAL_MAX_MS.
TLS_SHUTDOWN_MAX_S = 3  # maximum time for the other end to end TLS at the end of a connection
TLS_HINT = "are the address and the certificates right?"
STANDBY_HINT = "is another one taking over? Otherwise add the address of the active one"
# The reasons for a goodbye after which another address is tried first
_NOT_HERE = (ErrorCode.NOT_ACTIVE, ErrorCode.SHUTTING_DOWN)


@dataclass(frozen=True, slots=True)
class ConnectTimes:
    """The times for which a client tries to connect, in milliseconds. None means without limit.

    Raises:
        ValueError: A time is negative.
    """

    wait_ms: int | None  # time for the first connection; 0 makes one round of attempts
    give_up_ms: int | None  # time for each later connection; 0 makes no attempt

    def __post_init__(self) -> None:
        for name, time_ms in (("wait_ms", self.wait_ms), ("give_up_ms", self.give_up_ms)):
            if time_ms is not None and time_ms < 0:
                raise ValueError(f"{name} is negative: {time_ms}")


class Dialler:
    """The dialler of a session.

    Invariant: the dialler connects only while the session has no connection. ``_reasons`` has the
    addresses that have failed in the present round.
    """

    def __init__(
        self,
        session: Session,
        addresses: Sequence[Address],
        patience: ConnectTimes,
        tls: TlsOptions | None = None,
    ) -> None:
        self._session = session
        self._addresses = addresses
        self._at = 0  # the index of the address to dial, or that is connected
        self._reasons: dict[Address, str] = {}
        self._has_standby = False  # whether a standby answered in the present round
        self._retry_after_ms = 0  # pause that an active queue manager requested in this round
        self._code = 0  # the last error code of a queue manager in the present round
        self._tls = tls
        self._patience = patience
        self._loop = asyncio.get_running_loop()

    async def run(self, opened: "asyncio.Future[None]") -> None:
        """Keeps the session connected until its core ends.

        The first connection sets the result of *opened*. Otherwise *opened* fails: with
        ConnectFailed if the time is up, or with ConnectionEnded if the queue manager refuses this
        client.
        """
        session = self._session
        session.timer.start()
        try:
            await self._keep(opened)
        except Exception as error:
            session.end(ErrorCode.INTERNAL_ERROR, f"a bug in the client: {error!r}")
            raise
        finally:
            session.timer.stop()
            if not opened.done():
                opened.set_exception(session.core.failed or ConnectionError("no attempt was made"))

    async def _keep(self, opened: "asyncio.Future[None]") -> None:
        session = self._session
        failures, until_ms = 0, self._deadline(self._patience.wait_ms)
        while session.core.failed is None:
            hint = await self._dial_all(self._limit_ms(failures, until_ms))
            if hint:
                failures += 1
            else:
                failures = 0
                if not opened.done():
                    opened.set_result(None)
                assert session.over is not None
                await session.over
                self._begin_round()
                self._note_failure()
                if session.loss_code in _NOT_HERE and len(self._addresses) > 1:
                    self._move_on()
                    self._retry_after_ms = 0  # The other addresses did not request a pause.
                until_ms = self._deadline(self._patience.give_up_ms)
            if session.core.failed is not None:
                return
            if until_ms is not None and session.now_ms() >= until_ms:
                self._give_up(opened, hint)
                return
            await asyncio.sleep(self._pause_ms(failures, until_ms) / 1000)

    async def _dial_all(self, limit_ms: int) -> str:
        """Dials the addresses in turn until one answers. Returns "", or the hint for a failure."""
        session, hint = self._session, ""
        self._begin_round()
        for _ in self._addresses:
            session.loss_reason, session.loss_code, session.retry_after_ms = "", 0, 0
            session.is_untrusted = False
            hint = await self._dial(limit_ms)
            if not hint or session.core.failed is not None:
                return hint
            self._note_failure()
            self._move_on()
        return STANDBY_HINT if self._has_standby else hint

    def _begin_round(self) -> None:
        self._reasons.clear()
        self._has_standby, self._retry_after_ms, self._code = False, 0, 0

    def _note_failure(self) -> None:
        session = self._session
        self._reasons[self._addresses[self._at]] = session.loss_reason
        self._code = session.loss_code or self._code
        if session.loss_code == ErrorCode.NOT_ACTIVE:
            self._has_standby = True
        else:
            self._retry_after_ms = max(self._retry_after_ms, session.retry_after_ms)

    def _move_on(self) -> None:
        self._at = (self._at + 1) % len(self._addresses)

    def _give_up(self, opened: "asyncio.Future[None]", hint: str) -> None:
        where, reason = joined(self._addresses), self._session.loss_reason
        if len(self._addresses) > 1:
            reason = "; ".join(f"{address}: {why}" for address, why in self._reasons.items())
        if not opened.done():
            opened.set_exception(ConnectFailed(where, reason, hint, self._code))
        self._session.end(ErrorCode.LIVENESS_EXPIRED, f"no connection to {where}: {reason}")

    def _deadline(self, patience_ms: int | None) -> int | None:
        return None if patience_ms is None else self._session.now_ms() + patience_ms

    def _limit_ms(self, failures: int, until_ms: int | None) -> int:
        """Returns the maximum time for each attempt of a round after *failures* failed rounds."""
        count, limit_ms = len(self._addresses), DIAL_MAX_MS
        if count > 1:
            limit_ms = min(DIAL_MIN_MS << min(failures, 20), DIAL_MAX_MS)
        if until_ms is not None and (left_ms := until_ms - self._session.now_ms()) > 0:
            limit_ms = min(limit_ms, max(left_ms // count, 1))
        return limit_ms

    def _pause_ms(self, failures: int, until_ms: int | None) -> float:
        """Returns the pause before the next round. The pause doubles each time, with jitter."""
        most_ms = STANDBY_MAX_MS if self._has_standby else BACK_OFF_MAX_MS
        longest_ms = float(min(BACK_OFF_MIN_MS << min(failures, 20), most_ms))
        pause_ms = max(longest_ms * random.uniform(0.5, 1.0), self._retry_after_ms)
        if until_ms is None:
            return pause_ms
        return min(pause_ms, max(until_ms - self._session.now_ms(), 0))

    async def _dial(self, limit_ms: int) -> str:
        """Connects within *limit_ms*. Returns "" after a successful handshake.

        Otherwise returns a hint. The session then has the reason for the failure.
        """
        session = self._session
        session.greeted = self._loop.create_future()
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._connect()
                session.loss_reason = await session.greeted
        except TimeoutError:
            session.drop()
            session.loss_reason = f"no answer within {limit_ms} ms"
            return "is it reachable, and is it a qmgrd?"
        except TlsFailed as error:
            session.loss_reason = str(error)
            return TLS_HINT
        except OSError as error:
            session.loss_reason, hint = explained(error)
            return hint
        except UnicodeError as error:  # The host name is invalid: "a..b" has an empty label.
            session.loss_reason = str(error)
            return "is the name right?"
        if session.loss_reason.startswith(GOODBYE):  # Only a queue manager sends a goodbye.
            return "check the log of the queue manager"
        if session.is_untrusted:
            return TLS_HINT
        return "is it a qmgrd? check its log" if session.loss_reason else ""

    async def _connect(self) -> None:
        host, port, path = self._addresses[self._at][:3]
        session, loop, tls = self._session, self._loop, self._tls
        if path:
            await loop.create_unix_connection(lambda: Wire(session), path)
        elif tls is None:
            await loop.create_connection(lambda: Wire(session), host, port)
        else:
            await loop.create_connection(
                lambda: Wire(session, tls),
                host,
                port,
                ssl=tls.context(),
                server_hostname=tls.server_name or host,
                ssl_handshake_timeout=TLS_HANDSHAKE_MAX_S,
                ssl_shutdown_timeout=TLS_SHUTDOWN_MAX_S,
            )


def explained(error: OSError) -> tuple[str, str]:
    """Returns the reason why a connection failed, and a hint."""
    if isinstance(error, ssl.SSLError):
        return tls_explained(error), TLS_HINT
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error), "is the name right?"
    number = error.errno
    if number is None:  # The text contains the errors of several addresses.
        numbers = set(re.findall(r"\[Errno (\d+)\]", str(error)))
        number = int(numbers.pop()) if len(numbers) == 1 else None
    reason = os.strerror(number) if number else str(error)
    if number in (errno.ENOENT, errno.ECONNREFUSED):
        return reason, "is qmgrd running there?"
    if number in (errno.EACCES, errno.EPERM):
        return reason, "may this user open the socket?"
    return reason, "is the address right, and the host reachable?"
