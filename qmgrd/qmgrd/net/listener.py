"""Listens on the configured addresses and accepts connections.

This module accepts connections without uvloop's server. If the system has no free descriptor,
uvloop closes the new connection silently, or retries immediately and endlessly. uvloop also ignores
a failed listen().
"""

import asyncio
import errno
import json
import os
import socket
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import structlog

from qmgr_config.address import Address, parse_address
from qmgr_config.model import Config
from qmgrd.net.door import Door

BACKLOG = 1024
LISTENING_FILE = "listening.json"
OPENING_MAX = 2  # accepted connections of one listener that the event loop does not watch yet
RETRY_S = 0.5  # time before accept() is tried again after a failure
Protocol: TypeAlias = Callable[[], asyncio.BaseProtocol]
_NOT_NOW = {errno.EAGAIN, errno.EINTR, errno.ECONNABORTED}

log = structlog.get_logger()


class ListenFailed(Exception):
    """The daemon cannot listen on an address."""


class Listener:
    """A listening socket. Connections that cannot be accepted yet wait in its backlog.

    Invariant: the loop watches the socket unless this listener is due at the door, opens as many
        connections as it may, or waits for ``_retry`` because the system refused a connection.
    """

    def __init__(
        self, sock: socket.socket, door: Door, protocol: Protocol, *, is_tls: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_tls = is_tls
        self._socket = sock
        self._door = door
        self._protocol = protocol
        self._retry: asyncio.TimerHandle | None = None
        self._refused = False  # whether accepting failed and the failure was logged
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.is_known = sock.family == socket.AF_UNIX
        sock.setblocking(False)
        self._watch()

    @property
    def name(self) -> str:
        """The address in the form that a client would use."""
        return name_of(self._socket, is_tls=self._is_tls)

    def close(self) -> None:
        """Stops listening. Accepted connections stay open."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _watch(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket, self._arrived)

    def _arrived(self) -> None:
        self._loop.remove_reader(self._socket)
        self._door.arrived(self)

    def step(self) -> None:
        """Accepts a connection. Asks for another step if more connections may wait."""
        if self._is_closed:
            return
        try:
            connection, _ = self._socket.accept()
        except OSError as error:
            if error.errno not in _NOT_NOW:
                self._wait(error)
                return
            if error.errno == errno.EAGAIN:
                self._refused = False  # The backlog is empty, so the shortage is over.
            self._watch()
            return
        connection.setblocking(False)
        if not self.is_known:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._open(connection))
        self._opening.add(task)
        task.add_done_callback(self._opened)
        if len(self._opening) < OPENING_MAX:
            self._door.arrived(self)

    def fail(self, error: Exception) -> None:
        """Logs an internal error, and goes on."""
        log.error("internal error of a listener", address=self.name, exc_info=error)
        self._wait(OSError(errno.EIO, str(error)))

    def _opened(self, task: asyncio.Task[None]) -> None:
        is_next = len(self._opening) == OPENING_MAX
        self._opening.discard(task)
        if is_next and not self._is_closed:
            self._door.arrived(self)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError as error:  # The system could not watch the socket either.
            connection.close()
            log.warning("connection lost", address=self.name, why=error.strerror)

    def _wait(self, error: OSError) -> None:
        if not self._refused:
            log.warning(
                "new connections wait: the system cannot accept them",
                address=self.name,
                why=error.strerror,
            )
        self._refused = True
        self._retry = self._loop.call_later(RETRY_S, self._watch)


def name_of(sock: socket.socket, *, is_tls: bool) -> str:
    """Returns the address of a listening socket in the form that a client would use."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    address = str(Address(*sock.getsockname()[:2]))
    return f"tls:{address}" if is_tls else address


class Sockets:
    """The listening sockets of a process. Connections wait in them while nobody listens."""

    def __init__(self, sockets: list[tuple[socket.socket, bool]]) -> None:
        self._sockets = sockets

    @property
    def names(self) -> list[str]:
        """The addresses, in the form that a client would use."""
        return [name_of(sock, is_tls=is_tls) for sock, is_tls in self._sockets]

    def listeners(
        self, door: Door, protocol: Protocol, tls_protocol: Protocol | None = None
    ) -> list[Listener]:
        """Returns a listener for each socket. The sockets stay open when the listeners close.

        Args:
            door: Decides when a connection is accepted.
            protocol: Creates the session of a connection without TLS.
            tls_protocol: Creates the session of a connection with TLS. Required if an address uses
                TLS.
        """
        secure = tls_protocol or protocol
        return [
            Listener(sock.dup(), door, secure if is_tls else protocol, is_tls=is_tls)
            for sock, is_tls in self._sockets
        ]

    def close(self) -> None:
        """Closes the sockets. Connections that wait in them are lost."""
        for sock, _ in self._sockets:
            sock.close()


async def bind(config: Config) -> Sockets:
    """Returns a listening socket for each address.

    Raises:
        ListenFailed: The error message states the address, the reason and the remedy.
    """
    sockets: list[tuple[socket.socket, bool]] = []
    tcp = [(text, False) for text in config.listen.tcp]
    tls = [(text, True) for text in config.listen.tls]
    try:
        for text, is_tls in tcp + tls:
            for family, where in await _resolve(parse_address(text)):
                sockets.append((_bind(family, where, text), is_tls))
        if config.unix_path is not None:
            sockets.append((_bind_unix(config.unix_path), False))
    except ListenFailed:
        Sockets(sockets).close()
        raise
    return Sockets(sockets)


def close_all(listeners: Iterable[Listener]) -> None:
    """Stops listening. Accepted connections stay open."""
    for listener in listeners:
        listener.close()


def write_addresses(data_dir: Path, addresses: list[str]) -> None:
    """Writes the daemon's addresses into *data_dir*, for local tools."""
    temporary = data_dir / f"{LISTENING_FILE}.new"
    try:
        temporary.write_text(json.dumps(addresses) + "\n")
        temporary.replace(data_dir / LISTENING_FILE)
    except OSError as error:  # The disk may be full, and the daemon is needed to empty it.
        log.warning("cannot write", path=str(temporary), why=error.strerror)


async def _resolve(address: Address) -> list[tuple[int, tuple[str, int]]]:
    """Returns the families and addresses of a host name or address."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except (OSError, UnicodeError) as error:  # Invalid host name: "a..b" has an empty label.
        raise _failed(str(address), error) from error
    return [(family, where) for family, _, _, _, where in dict.fromkeys(found)]  # type: ignore[misc]


def _bind(family: int, where: tuple[str, int] | str, name: str) -> socket.socket:
    """Returns a listening socket."""
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(where)
            sock.listen(BACKLOG)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise _failed(name, error) from error
    return sock


def _bind_unix(path: Path) -> socket.socket:
    try:
        _remove_stale(path)
    except OSError as error:
        raise _failed(str(path), error) from error
    before = os.umask(0o177)  # No other user may connect between bind and chmod.
    try:
        return _bind(socket.AF_UNIX, str(path), str(path))
    finally:
        os.umask(before)


def _failed(name: str, error: OSError | UnicodeError) -> ListenFailed:
    why = getattr(error, "strerror", None) or error
    return ListenFailed(
        f"cannot listen on {name}: {why}: "
        "stop the program that uses it, or change [listen] in the configuration"
    )


def _remove_stale(path: Path) -> None:
    """Removes the socket of a killed daemon, unless a process listens on it."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise ListenFailed(f"cannot listen on {path}: the path is a file but not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise ListenFailed(
        f"cannot listen on {path}: another program uses it: stop the program, or change listen.unix"
    )
