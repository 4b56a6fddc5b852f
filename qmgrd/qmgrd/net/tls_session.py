"""A connection over TLS: its bytes pass through a :class:`TlsChannel`."""

import asyncio
import ssl
from collections.abc import Callable

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgr_protocol.tls import TlsFailed
from qmgrd.core.peer import Peer
from qmgrd.net.door import Door
from qmgrd.net.session import SessionHost, SocketSession
from qmgrd.net.tls_channel import TlsChannel
from qmgrd.net.tls_names import tls_of


class TlsRequired(RemoteProtocolError):
    """A peer did not begin with TLS at a port that requires TLS."""

    code = ErrorCode.TLS_REQUIRED


class TlsSession(SocketSession):
    """A session that begins with a TLS handshake.

    The handshake counts as a part of the greeting: the limits of greetings apply to both together.
    """

    def __init__(
        self,
        host: SessionHost,
        make_peer: Callable[[SocketSession], Peer],
        door: Door,
        channel: TlsChannel,
        check: Callable[[ssl.SSLObject], None] = lambda channel: None,
    ) -> None:
        """Creates the session.

        Args:
            door: Decides when a step of the handshake is made.
            channel: The new channel of the connection.
            check: A function that checks the peer after the handshake. It may raise TlsFailed.
        """
        super().__init__(host, make_peer)
        self._door = door
        self._channel = channel
        self._check = check
        self._is_plain = False  # whether the peer does not use TLS
        self._is_heard = False  # whether the peer has sent a byte

    def _begin(self, transport: asyncio.Transport) -> None:
        if self.peer.dial:
            self.step()

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypts received bytes, or schedules the next step of the handshake."""
        if self._open_transport() is None:
            return
        channel = self._channel
        data = self._frames.last[:nbytes].tobytes()
        if not self._is_heard:
            self._is_heard = True
            if self.peer.dial is None and channel.is_plain(data):
                self._is_plain = True
                why = "this port requires TLS: dial it as tls:HOST:PORT, or use a port without TLS"
                self._end_after_error(TlsRequired(why), data)
                return
        if channel.is_open:
            self._read(data)
            return
        try:
            channel.feed(data)
        except TlsFailed as error:
            self._end_tls(error)
        else:
            self._door.shake(self)

    def step(self) -> None:
        """Makes the next step of the handshake. A finished handshake begins the greeting."""
        transport = self._open_transport()
        if transport is None:
            return
        try:
            is_open = self._channel.shake()
            if is_open:
                self._check_peer()
        except TlsFailed as error:
            self._end_tls(error)
            return
        transport.write(self._channel.outgoing())
        self._host.session_advanced(self)
        if is_open:
            self.peer.secured(tls_of(self._channel.tls))
            super()._begin(transport)
            self._read(b"")

    def _check_peer(self) -> None:
        """Checks the peer. One that is refused does not receive the certificate of this end.

        Raises:
            TlsFailed: The peer is another one than expected.
        """
        try:
            self._check(self._channel.tls)
        except TlsFailed:
            self._channel.outgoing()
            raise

    def _read(self, data: bytes) -> None:
        try:
            for found in self._channel.decrypted(data):
                self._received(found)
                if self._open_transport() is None:
                    return
        except TlsFailed as error:
            self._end_tls(error)
            return
        transport = self._open_transport()
        # TLS itself may have to answer, for example to a change of keys.
        if transport is not None and (answer := self._channel.outgoing()):
            transport.write(answer)
        if self._channel.has_ended:
            self.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Reports the closed connection to the core."""
        self._door.forget(self)
        super().connection_lost(error)

    def eof_received(self) -> None:
        """Closes this side as well. An end during the handshake is a failure of TLS."""
        is_shaking = self._is_heard and not (self._channel.is_open or self._is_plain)
        if is_shaking and self._open_transport() is not None:
            why = "the other end closed the connection during the TLS handshake"
            self._end_tls(TlsFailed(f"{why}: it may not trust the certificate of this end"))
        else:
            super().eof_received()

    def _end_tls(self, error: TlsFailed) -> None:
        """Closes the connection after a failure of TLS. The peer receives TLS's alert."""
        self._why = str(error)
        self.peer.goaway = m.Goaway(ErrorCode.TLS_FAILED, self._why)
        if self._open_transport() is not None:
            self._leave(b"")
        self._host.want_turn()

    def _encoded(self, data: bytes) -> bytes:
        if self._is_plain:
            return data
        # Before the end of the handshake, a peer cannot read what this end says.
        if not (self._channel.is_open and data):
            return b""
        try:
            return self._channel.encrypted(data)
        except TlsFailed as error:
            # The callers close connections, too, so the abort must not happen inside of them.
            self._why = str(error)
            if self._transport is not None:
                asyncio.get_running_loop().call_soon(self._transport.abort)
            return b""

    def _farewell(self) -> bytes:
        return b"" if self._is_plain else self._channel.outgoing() + self._channel.farewell()
