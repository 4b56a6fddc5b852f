"""Tests that clients that send without pause cannot use up the loop, memory or store reserve."""

import asyncio
import os
import random
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from qmgr_client.aio import Message, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgr_protocol.frame import encode
from qmgr_protocol.layout import to_array
from tests.process.daemon import PATIENCE_S, Daemon, Wire

pytestmark = pytest.mark.process

MEMORY_MAX_MIB = 150  # Each connection may buffer 4 MiB, while the clients send 120 MB.
POURED_BYTES = 30_000_000  # number of bytes that each of four clients sends


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "data", listen={"tcp": ["127.0.0.1:0"]})
    yield daemon
    daemon.close()


@contextmanager
def pouring(wire: Wire, data: bytes, bytes_max: int = 1 << 62) -> Iterator[threading.Thread]:
    """Sends *data* repeatedly in a thread, and reads the replies."""
    over = threading.Event()
    wire.socket.setblocking(False)

    def pour() -> None:
        sent = 0
        while not over.is_set() and sent < bytes_max:
            readable, writable, _ = select.select([wire.socket], [wire.socket], [], 0.1)
            with suppress(BlockingIOError):
                if readable and not wire.socket.recv(1 << 20):
                    return
                if writable:
                    start = sent % len(data)
                    sent += wire.socket.send(data[start : start + (1 << 18)])

    def run() -> None:
        with suppress(OSError):  # The daemon closed the connection.
            pour()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        over.set()
        thread.join()
        wire.close()


def memory_mib(daemon: Daemon) -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


@pytest.mark.parametrize("what", ["pings", "empty puts"])
def test_endless_tiny_frames_starve_no_client(daemon: Daemon, what: str) -> None:
    """The daemon still answers the other clients."""
    daemon.start()
    with daemon.connect("good") as good, daemon.connect("bad") as one:
        good.ask(m.QueueCreate, "Q")
        stream = one.ask(m.ProducerOpen, os.urandom(16))[0]
        message = m.Ping(7) if what == "pings" else m.Put(stream, 1, 0, "Q", [])
        with pouring(one, encode(to_array(message)) * 30_000):
            for _ in range(20):
                good.ask(m.Status)


@pytest.mark.long
def test_long_waiting_settles_take_bounded_memory(daemon: Daemon) -> None:
    daemon.start()
    handles = b"".join(m.HANDLE.pack(4, 10**6 + i, 1) for i in range(10_000))
    data = encode(to_array(m.Settle(1, m.ACK, 1, handles))) * 8
    with daemon.connect("good") as good:
        good.ask(m.QueueCreate, "Q")
    wires = [daemon.connect("bad") for _ in range(4)]
    peak_mib = _poured(daemon, wires, data)
    # A new connection is needed, because the first one may have been silent for too long.
    with daemon.connect("good") as good:
        assert good.ask(m.Status)["name"] == "QM1"
    assert peak_mib < MEMORY_MAX_MIB


def _poured(daemon: Daemon, wires: list[Wire], data: bytes) -> int:
    """Returns the daemon's peak memory while all of *wires* sent data."""
    if not wires:
        return memory_mib(daemon)
    with pouring(wires[0], data, POURED_BYTES) as thread:
        peak_mib = _poured(daemon, wires[1:], data)
        while thread.is_alive():
            thread.join(0.05)
            peak_mib = max(peak_mib, memory_mib(daemon))
    return peak_mib


@pytest.mark.parametrize("body_bytes", [10, 900])
async def test_full_store_is_drained_by_acks_in_any_order(daemon: Daemon, body_bytes: int) -> None:
    """Each ack copies the pages that it changes. A small map has few pages above its limit."""
    daemon.sections["store"] = {"map_bytes": "16 MiB"}
    daemon.start()
    async with asyncio.timeout(PATIENCE_S), connect(daemon.address) as manager:
        await manager.admin.queue_create("Q")
        while not any(
            isinstance(result, RequestError)
            for result in await manager.put_many("Q", [bytes(body_bytes)] * 500)
        ):
            pass
        leased: list[Message] = []
        while found := await manager.get_many("Q", 2_000, lease_ms=3_600_000):
            leased += found
        random.Random(1).shuffle(leased)
        assert not any(await manager.ack_many(leased))
    assert not daemon.find("a turn failed")
