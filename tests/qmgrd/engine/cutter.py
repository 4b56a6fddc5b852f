"""A proxy between a client and a server, which cuts a connection after an exact number of bytes."""

import re
import socket
from contextlib import suppress
from enum import Enum
from threading import Lock, Thread
from typing import Self


class Way(Enum):
    """A direction."""

    FORTH = "to the server"
    BACK = "to the client"


class Cutter:
    """A listener that connects its clients to a server on this machine.

    Invariant: ``_left`` is the number of bytes to pass in the direction ``_way`` before the cut, or
    None if no cut is planned.
    """

    def __init__(self, port: int) -> None:
        """Begins to listen for connections to *port*."""
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = Lock()
        self._way, self._left = Way.FORTH, None  # type: Way, int | None
        self._keeps_server = False
        self._sockets: set[socket.socket] = set()
        self.cuts = 0
        self._threads = [Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, url: str) -> str:
        """Returns the address of the proxy instead of that of its server."""
        return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{self._listener.getsockname()[1]}", url)

    def cut_after(self, way: Way, count: int, *, keeps_server: bool = False) -> None:
        """Plans to end a connection after *count* more bytes in this direction.

        Args:
            keeps_server: Whether the server is not informed, as if a network had failed.
        """
        with self._lock:
            self._way, self._left, self._keeps_server = way, count, keeps_server

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._port))
                except OSError:
                    client.close()
                    continue
                self._sockets |= {client, server}
                for source, target, way in (
                    (client, server, Way.FORTH),
                    (server, client, Way.BACK),
                ):
                    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    copying = Thread(target=self._copy, args=(source, target, way), daemon=True)
                    self._threads.append(copying)
                    copying.start()

    def _copy(self, source: socket.socket, target: socket.socket, way: Way) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                passed, is_cut = self._passed(data, way)
                target.sendall(passed)
                if is_cut:
                    client = target if way is Way.BACK else source
                    self.cuts += 1
                    _end(client)
                    if self._keeps_server:
                        return
                    break
        if not (self._keeps_server and self.cuts):
            _end(source)
            _end(target)

    def _passed(self, data: bytes, way: Way) -> tuple[bytes, bool]:
        """Returns the bytes to pass, and whether the connection ends after them."""
        with self._lock:
            if self._left is None or way is not self._way:
                return data, False
            if len(data) <= self._left:
                self._left -= len(data)
                return data, False
            passed, self._left = data[: self._left], None
            return passed, True

    def close(self) -> None:
        """Ends all connections."""
        _end(self._listener)
        for one in tuple(self._sockets):
            _end(one)
        for thread in self._threads:
            thread.join()
        for one in (*self._sockets, self._listener):
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
