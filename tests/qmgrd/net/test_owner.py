"""The kernel's report of the process at the other end of a unix socket."""

import asyncio
import os
import socket
import struct
from typing import Any

import pytest

from qmgrd.net.owner import is_owner


class Opened(asyncio.BaseTransport):
    """A transport over *sock*."""

    def __init__(self, sock: Any) -> None:
        super().__init__({"socket": sock})


class Reporting:
    """A socket whose peer is a process of *user_id*."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return struct.pack("3i", 4711, self.user_id, 0)[:size]


def test_own_process_is_of_the_owner() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert is_owner(Opened(here))


def test_only_the_daemon_s_user_and_root_are_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    users = {user_id: is_owner(Opened(Reporting(user_id))) for user_id in (0, 1_000, 1_001, -1)}
    assert users == {0: True, 1_000: True, 1_001: False, -1: False}


def test_socket_without_a_peer_is_not_of_the_owner() -> None:
    here, there = socket.socketpair()
    there.close()
    here.close()
    assert not is_owner(Opened(here))
