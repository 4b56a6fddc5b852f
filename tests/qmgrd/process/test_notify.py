"""Tests of notifications to the service manager, by a notifier alone and by the real process."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeAlias

import pytest

from qmgrd.process.notify import Notifier
from tests.process.daemon import PATIENCE_S, Daemon
from tests.qmgrd.descriptors import none_left

Make: TypeAlias = Callable[[dict[str, str]], Notifier]


class ServiceManager:
    """The other end of the socket. ``address`` has the format of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(PATIENCE_S)

    def heard(self) -> list[str]:
        """Waits for the next message; returns its lines."""
        return self.socket.recv(4096).decode().splitlines()

    def hears_nothing(self) -> bool:
        self.socket.setblocking(False)
        try:
            return not self.socket.recv(4096)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(PATIENCE_S)


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    address = str(tmp_path / "notify")
    manager = ServiceManager(address if request.param == "path" else f"@{address}")
    with manager.socket:
        yield manager


@pytest.fixture
def make() -> Iterator[Make]:
    """Yields a function that creates notifiers, which are closed after the test."""
    with ExitStack() as made:
        yield lambda environ: made.enter_context(closing(Notifier(environ)))


def environ(manager: ServiceManager, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.address, **more}


def test_states_and_status_are_one_message(make: Make, manager: ServiceManager) -> None:
    make(environ(manager)).send("STOPPING=1", status="failed:\n  disk")
    assert manager.heard() == ["STOPPING=1", "STATUS=failed: disk"]


@pytest.mark.parametrize("address", ["", "/none/notify", "@none", "/" + "x" * 200, "vsock:2:1"])
def test_missing_service_manager_is_accepted(make: Make, address: str) -> None:
    make({"NOTIFY_SOCKET": address}).ready("serves", 1)


async def test_nothing_is_reported_unasked(make: Make) -> None:
    notifier = make({"WATCHDOG_USEC": "1000"})
    notifier.signal_alive(asyncio.get_running_loop())
    assert notifier.watchdog_ms == 0


def test_notification_needs_no_free_descriptor(make: Make, manager: ServiceManager) -> None:
    """Otherwise, the service manager would kill a daemon that merely has many connections."""
    notifier = make(environ(manager))
    with none_left():
        notifier.send("WATCHDOG=1")
    assert manager.heard() == ["WATCHDOG=1"]


def test_start_without_a_descriptor_is_no_failure(make: Make, manager: ServiceManager) -> None:
    with none_left():
        make(environ(manager)).ready("serves", 1)
    assert manager.hears_nothing()


def test_sign_of_life_does_not_wait_for_a_manager_that_is_stuck(
    make: Make, manager: ServiceManager
) -> None:
    """The manager reads nothing, so its queue becomes full at some point."""
    notifier = make(environ(manager))
    for _ in range(10_000):
        notifier.send("WATCHDOG=1", wait_s=0)
    assert manager.heard() == ["WATCHDOG=1"]


@pytest.mark.parametrize(
    ("said", "watchdog_ms"),
    [
        ({"WATCHDOG_USEC": "90000000"}, 90_000),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": str(os.getpid())}, 90_000),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({}, 0),
    ],
)
def test_watchdog_is_ours_or_none(
    make: Make, manager: ServiceManager, said: dict[str, str], watchdog_ms: int
) -> None:
    assert make(environ(manager, **said)).watchdog_ms == watchdog_ms


def test_watchdog_time_exceeds_the_longest_pause(make: Make, manager: ServiceManager) -> None:
    notifier = make(environ(manager, WATCHDOG_USEC="90000000"))
    notifier.ready("serves", 30_000)
    assert manager.heard() == ["READY=1", "STATUS=serves"]
    notifier.ready("serves", 40_000)
    assert manager.heard() == ["READY=1", "WATCHDOG_USEC=120000000", "STATUS=serves"]
    assert notifier.watchdog_ms == 120_000


async def test_signs_of_life_come_from_the_loop(make: Make, manager: ServiceManager) -> None:
    make(environ(manager, WATCHDOG_USEC="2000")).signal_alive(asyncio.get_running_loop())
    assert manager.heard() == ["WATCHDOG=1"]
    assert manager.hears_nothing()  # The event loop did not run.
    loop = asyncio.get_running_loop()
    manager.socket.setblocking(False)
    assert await asyncio.wait_for(loop.sock_recv(manager.socket, 99), PATIENCE_S) == b"WATCHDOG=1"


@pytest.mark.process
def test_daemon_notifies_start_watchdog_and_stop(
    manager: ServiceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    daemon = Daemon(tmp_path / "data", limits={"heartbeat_ms": 10, "liveness_ms": 20})
    try:
        daemon.launch()
        ready = manager.heard()
        assert ready[:2] == ["READY=1", "WATCHDOG_USEC=60000"]
        assert ready[2].startswith("STATUS=QM1 serves at unix:")
        daemon.wait_for("listening")  # Another thread reads the log.
        daemon.connect().close()  # The daemon serves clients, as it reported.
        assert [manager.heard() for _ in range(3)] == [["WATCHDOG=1"]] * 3
        assert daemon.stop() == 0
        while (last := manager.heard()) == ["WATCHDOG=1"]:
            pass
        assert last == ["STOPPING=1", "STATUS=finishing received requests"]
    finally:
        daemon.close()


@pytest.mark.process
def test_failed_daemon_reports_the_reason(
    manager: ServiceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    daemon = Daemon(tmp_path / "data", limits={"heartbeat_ms": 10, "liveness_ms": 20})
    try:
        daemon.launch()
        assert manager.heard()[0] == "READY=1"
        (tmp_path / "data" / "store" / "data.mdb").unlink()
        stopping, status = manager.heard()
        assert stopping == "STOPPING=1"
        assert status.startswith("STATUS=failed: ")
        assert daemon.exit_code() == 3
    finally:
        daemon.close()


@pytest.mark.process
def test_daemon_that_cannot_start_is_never_ready(
    manager: ServiceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    daemon = Daemon(tmp_path / "data", listen={"unix": str(tmp_path / "none" / "sock")})
    try:
        assert daemon.launch().exit_code() == 4
        assert manager.hears_nothing()
    finally:
        daemon.close()


async def test_second_call_adds_no_signs_of_life(make: Make, manager: ServiceManager) -> None:
    """A member calls it again each time that its role changes."""
    loop = asyncio.get_running_loop()
    notifier = make(environ(manager, WATCHDOG_USEC="60000000"))
    notifier.signal_alive(loop)
    first = notifier._alive
    notifier.signal_alive(loop)
    assert first is not None
    assert first.cancelled()
