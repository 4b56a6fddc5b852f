"""Asks the kernel who is at the other end of a unix socket."""

import asyncio
import os
import socket
import struct

_UCRED = struct.Struct("3i")  # process id, user id, group id: struct ucred of Linux
ROOT = 0


def is_owner(transport: asyncio.BaseTransport) -> bool:
    """Returns whether a process of the daemon's user, or of root, opened this unix connection."""
    sock = transport.get_extra_info("socket")
    try:
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    except OSError:  # The peer has already closed the connection.
        return False
    _, user_id, _ = _UCRED.unpack(found)
    return user_id in (ROOT, os.geteuid())
