"""Listens on the addresses of the configuration."""

import asyncio
import os
import socket
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from qmgr_config.model import Config

BACKLOG = 1024


class ListenFailed(Exception):
    """An address that cannot be listened on."""


async def listen(
    config: Config, protocol: Callable[[], asyncio.Protocol]
) -> tuple[list[asyncio.Server], list[str]]:
    """Return the listening servers and their addresses, as a client would name them.

    Raises:
        ListenFailed: which address, why, and what to do.
    """
    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = []
    names: list[str] = []
    try:
        for address in config.listen.addresses:
            where = f"{address.host}:{address.port}"
            server = await _try(where, loop.create_server(
                protocol, address.host, address.port, backlog=BACKLOG
            ))  # fmt: skip
            servers.append(server)
            names += [_tcp_name(sock) for sock in server.sockets]
        path = config.unix_path
        if path is not None:
            _remove_stale(path)
            before = os.umask(0o177)  # Nobody else may come in between bind and chmod.
            try:
                server = await _try(str(path), loop.create_unix_server(
                    protocol, str(path), backlog=BACKLOG
                ))  # fmt: skip
            finally:
                os.umask(before)
            servers.append(server)
            names.append(f"unix:{path}")
    except ListenFailed:
        for server in servers:
            server.close()
        raise
    return servers, names


async def _try(where: str, starting: Coroutine[Any, Any, asyncio.Server]) -> asyncio.Server:
    try:
        return await starting
    except OSError as error:
        raise ListenFailed(
            f"cannot listen on {where}: {os.strerror(error.errno) if error.errno else error}: "
            "stop what uses it, or change [listen] in the configuration"
        ) from error


def _tcp_name(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _remove_stale(path: Path) -> None:
    """Remove a socket that a killed daemon left, but none that somebody listens on."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise ListenFailed(f"cannot listen on {path}: a file of another kind is there")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise ListenFailed(
        f"cannot listen on {path}: another program does: stop it, or change listen.unix"
    )
