"""Spares each task of a worker up to 80 ms in which Spark and the kernel wait for each other.

Both ends of a worker's connection write in pieces and leave Nagle's algorithm on: a piece waits
until the one before is acknowledged, which Linux delays by 40 ms where nothing is to be sent back.
A task of 250,000 messages takes 300 ms.
"""

import os
import socket
import stat
from contextlib import suppress

DESCRIPTORS = "/proc/self/fd"


def be_prompt() -> None:
    """Have the TCP connections of this process send and acknowledge without delay.

    The kernel falls back to late acknowledgements: call it for each task. Nothing happens where
    that cannot be set: it is Linux's.
    """
    if not hasattr(socket, "TCP_QUICKACK") or socket.getdefaulttimeout() is not None:
        return  # A default timeout would be set on whatever is looked at here, too.
    with suppress(OSError):  # There may be no /proc.
        for descriptor in map(int, os.listdir(DESCRIPTORS)):
            with suppress(OSError):  # The one that listed them is closed.
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    _set(descriptor)


def _set(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as one:
        if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
