"""The TLS of one connection, without I/O: bytes of the socket in, bytes for the socket out.

asyncio and uvloop have TLS transports as well. They do not report the bytes that the peer has not
read, and they cannot close one direction only, which a goodbye needs.
"""

import ssl
from collections.abc import Iterator
from contextlib import suppress

from qmgr_protocol.tls import TlsFailed, explained
from qmgrd.net.tls_records import HANDSHAKE_RECORDS_MAX, TlsRecords

# Longer chains of certificates are not useful, and OpenSSL would keep all of these bytes. Anybody
# may send a chain to a listener. OpenSSL reads all certificates of a chain in one step, before it
# checks the first, so a chain of 64 KiB would hold the event loop for 50 ms. Three certificates
# with RSA keys of 4,096 bits take 6 KiB.
DIALLER_MAX_BYTES, LISTENER_MAX_BYTES = 64 * 1024, 12 * 1024
_READ_BYTES = 16 * 1024  # the data of the longest TLS record, which is the most that a read returns
_FIRST_BYTE = b"\x16"  # the type of the record that begins each TLS connection


class TlsChannel:
    """A TLS connection, before, during and after its handshake.

    Invariant: ``outgoing`` has been called after each call that may produce bytes for the socket.
    """

    def __init__(
        self, context: ssl.SSLContext, *, is_server: bool, name: str | None = None
    ) -> None:
        """Creates a channel.

        Args:
            context: The certificates and the versions of this end.
            name: For a dialler, the name or IP address that the peer's certificate must have.
        """
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, is_server, name)
        self.is_open = False  # whether the handshake is finished
        self.has_ended = False  # whether the peer has closed its direction
        self._handshake_max_bytes = LISTENER_MAX_BYTES if is_server else DIALLER_MAX_BYTES
        self._handshake_bytes = 0
        self._records = TlsRecords()

    @staticmethod
    def is_plain(first: bytes) -> bool:
        """Returns whether *first*, the first bytes of a peer, are not TLS."""
        return not first.startswith(_FIRST_BYTE)

    def feed(self, data: bytes) -> None:
        """Takes *data* of the handshake from the socket.

        Raises:
            TlsFailed: The handshake is longer than DIALLER_MAX_BYTES or LISTENER_MAX_BYTES, or has
                more than HANDSHAKE_RECORDS_MAX records.
        """
        self._handshake_bytes += len(data)
        if self._handshake_bytes > self._handshake_max_bytes:
            limit = self._handshake_max_bytes
            raise TlsFailed(f"the TLS handshake is longer than {limit} bytes")
        if not self._records.skip(data):
            raise TlsFailed(f"the TLS handshake has more than {HANDSHAKE_RECORDS_MAX} records")
        self._incoming.write(data)

    def shake(self) -> bool:
        """Continues the handshake. Returns whether it is finished.

        Raises:
            TlsFailed: The handshake failed. ``outgoing`` may have an alert for the peer.
        """
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ValueError) as error:  # ValueError: a name with a NUL
            raise TlsFailed(explained(error)) from error
        self.is_open = True
        return True

    def outgoing(self) -> bytes:
        """Returns the bytes to write to the socket."""
        return self._outgoing.read()

    def decrypted(self, data: bytes) -> Iterator[bytes]:
        """Takes *data* from the socket, and yields what the peer sent, a few records at a time.

        Raises:
            TlsFailed: The peer broke TLS, or refused the certificate of this end. Everything that
                arrived before the error has been yielded.
        """
        for part in self._records.slices(data):
            self._incoming.write(part)
            found, error = self._read()
            if found:
                yield found
            if error is not None:
                raise error

    def _read(self) -> tuple[bytes, TlsFailed | None]:
        """Returns the data that can be decrypted, and the error that follows it, if any."""
        parts, error = list[bytes](), None
        try:
            while data := self.tls.read(_READ_BYTES):
                parts.append(data)
            self.has_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.has_ended = True
        except ssl.SSLError as failed:
            error = TlsFailed(explained(failed))
        found = parts[0] if len(parts) == 1 else b"".join(parts)
        if error is None and not self._records.carried(len(parts), len(found)):
            error = TlsFailed("the other end sent too many records of TLS without data")
        return found, error

    def encrypted(self, data: bytes) -> bytes:
        """Returns *data* as bytes for the socket.

        Raises:
            TlsFailed: The peer left TLS in a state in which nothing can be sent.
        """
        try:
            self.tls.write(data)
        except ssl.SSLError as error:  # also SSLWantReadError, after a part of a handshake message
            raise TlsFailed(explained(error)) from error
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Returns the bytes that end this direction, or b"" before the end of the handshake."""
        if not self.is_open:
            return b""
        with suppress(ssl.SSLError):  # The peer has not ended its direction yet.
            self.tls.unwrap()
        return self._outgoing.read()
