"""The daemon's entry point for TLS: sessions of listeners and links, and the renewal of files."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import structlog

from qmgr_config.model import LoginConfig
from qmgr_protocol.tls import TlsFailed
from qmgrd.core.broker import Broker
from qmgrd.core.peer import Peer
from qmgrd.net.dialler import dial, tls_channel
from qmgrd.net.door import Door
from qmgrd.net.session import SessionHost, SocketSession
from qmgrd.net.tls_channel import TlsChannel
from qmgrd.net.tls_files import Certificate, TlsFiles
from qmgrd.net.tls_session import TlsSession

REFRESH_S = 5.0  # time between two checks of the files
WARN_AGAIN = timedelta(days=1)

MakePeer: TypeAlias = Callable[[SocketSession], Peer]
InTurn: TypeAlias = Callable[[Callable[[Broker], None]], object]

log = structlog.get_logger()


class TlsService:
    """All TLS of a daemon.

    Invariant: ``_warned`` has the time of the last warning about each certificate in use that ends
        soon, by its fingerprint.
    """

    def __init__(self, files: TlsFiles, host: SessionHost, door: Door, in_turn: InTurn) -> None:
        self._files = files
        self._host = host
        self._in_turn = in_turn
        self._door = door
        self._warned: dict[str, datetime] = {}

    def accept(self, make_peer: MakePeer) -> TlsSession:
        """Returns the session of a new connection to a listener."""
        context = self._files.server
        channel = TlsChannel(context, is_server=True)
        return TlsSession(self._host, make_peer, self._door, channel)

    async def dial(self, address: str, login: LoginConfig | None, make_peer: MakePeer) -> str:
        """Connects a link to *address*. Returns the reason for the failure, or ""."""
        options = self._files.options(login)
        try:
            channel = tls_channel(address, options)
        except TlsFailed as error:
            return f"{address}: {error}"
        return await dial(
            address, lambda: TlsSession(self._host, make_peer, self._door, channel, options.check)
        )

    async def refresh(self) -> None:
        """Reads changed files, and warns of certificates that end soon, until it is cancelled."""
        while True:
            self.look(datetime.now(UTC))
            await asyncio.sleep(REFRESH_S)

    def look(self, now: datetime) -> None:
        """Reads changed files. Warns once a day of each certificate that ends soon."""
        self._files.refresh()
        ending = self._files.ending(now)
        last = {x.fingerprint: self._warned.get(x.fingerprint) for x in ending}
        self._warned = {key: when for key, when in last.items() if when is not None}
        for certificate in ending:
            when = last[certificate.fingerprint]
            if when is None or now - when >= WARN_AGAIN:
                self._warned[certificate.fingerprint] = now
                self._warn(certificate, now)

    def _warn(self, certificate: Certificate, now: datetime) -> None:
        event = "certificate ended" if certificate.ends <= now else "certificate ends soon"
        facts: dict[str, Any] = {"path": certificate.path, "ends": certificate.ends.isoformat()}
        log.warning(event, **facts, why="renew it and replace its files; no restart is needed")
        self._in_turn(lambda broker: broker.context.event(event, **facts))

    def facts(self) -> list[dict[str, Any]]:
        """Returns the certificates of the listeners, for operators."""
        return [
            {
                "path": x.path,
                "names": list(x.names),
                "ends": x.ends.isoformat(),
                "fingerprint": x.fingerprint,
            }
            for x in self._files.certificates
        ]
