"""Runs hostile connections and one well-behaved client: python -m tests.process.crowd.

The hostile connections send nothing, stop in the middle of large frames, request large messages
that they never read, or send single bytes. Each connection sends a sign of life from time to time,
and reconnects after the daemon has closed it. Meanwhile another process puts and gets small
messages, and also connects through the unix socket. The report contains the latencies of this
process, and the memory of the daemon.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.frame import LENGTH, encode
from qmgr_protocol.layout import to_array
from tests.process.daemon import PATIENCE_S, Daemon, Wire

MIB = 1 << 20
LARGE_BYTES = 4 * MIB - 1_000
LARGE_MESSAGES = 16
HALF_BYTES = 8 * MIB - 100  # length of a large frame, of which half is sent
SIGN_S = 3.0  # seconds between two signs of life
REST_S = 1.0  # seconds before a reconnect
PERIOD_S = 0.005  # seconds between the rounds of the well-behaved client
DOOR_EVERY = 40  # number of rounds between two connections to the unix socket

Play = Callable[["Hostile"], Awaitable[None]]


class Hostile:
    """A hostile connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.loop = asyncio.get_running_loop()

    async def send(self, *messages: m.Message) -> None:
        await self.loop.sock_sendall(self.socket, b"".join(encode(to_array(x)) for x in messages))

    async def greet(self) -> None:
        await self.send(m.Hello(m.MAGIC, 1, 1, "client", f"hostile {random.randrange(10**6)}"))
        await self.loop.sock_recv(self.socket, 1 << 16)

    async def live(self) -> None:
        """Sends signs of life until the daemon closes the connection."""
        while True:
            await asyncio.sleep(SIGN_S)
            await self.send(m.Pong(1))


async def mute(one: Hostile) -> None:
    """Sends nothing."""
    await one.loop.sock_recv(one.socket, 1)


async def drip(one: Hostile) -> None:
    """Sends hello one byte at a time."""
    for byte in encode(to_array(m.Hello(m.MAGIC, 1, 1, "client", "drip"))):
        await one.loop.sock_sendall(one.socket, bytes([byte]))
        await asyncio.sleep(0.5)


async def half(one: Hostile) -> None:
    """Sends half of a large frame."""
    await one.greet()
    await one.loop.sock_sendall(one.socket, LENGTH.pack(HALF_BYTES))
    piece = bytes(MIB // 4)
    for _ in range(HALF_BYTES // 2 // len(piece)):
        await one.loop.sock_sendall(one.socket, piece)
    await one.loop.sock_recv(one.socket, 1)


async def browse(one: Hostile) -> None:
    """Browses large messages without reading the answers."""
    await one.greet()
    await one.send(*(m.Browse(number, "LARGE") for number in range(1, 32)))
    await one.live()


async def consume(one: Hostile) -> None:
    """Consumes large messages without reading them."""
    await one.greet()
    await one.send(m.Consume(1, "LARGE", 1_000, 64 * MIB))
    await one.live()


KINDS: tuple[Play, ...] = (mute, drip, half, browse, consume)


async def again_and_again(address: str, play: Play, ends: Counter[str]) -> None:
    """Runs one hostile connection after another."""
    host, _, port = address.rpartition(":")
    while True:
        with socket.socket() as sock, suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
            await play(Hostile(sock))
        ends[play.__name__] += 1
        await asyncio.sleep(REST_S)


def own_memory_mib(pid: int) -> float:
    """Returns the memory of a process, without file-backed pages."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


async def crowd(
    daemon: Daemon, count: int, seconds: float, sample: Callable[[], None]
) -> Counter[str]:
    """Runs *count* hostile connections for *seconds*; returns how often each kind ended.

    On a busy machine, they run longer, until the daemon has ended a connection of each kind.
    """
    ends: Counter[str] = Counter()
    tasks = [
        asyncio.create_task(again_and_again(daemon.address, KINDS[number % len(KINDS)], ends))
        for number in range(count)
    ]
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s + (0 if len(ends) == len(KINDS) else PATIENCE_S):
        sample()
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return ends


def behave(tcp: str, unix: str, seconds: float) -> dict[str, list[float]]:
    """Puts and gets small messages; returns the durations of each round and each connect in ms."""
    rounds: list[float] = []
    doors: list[float] = []
    with Wire(tcp) as wire:
        wire.send(m.Hello(m.MAGIC, 1, 1, "client", "good"))
        wire.next(m.Welcome)
        producer = wire.producer(os.urandom(16))
        print("ready", flush=True)
        end_s = time.monotonic() + seconds
        while (start_s := time.monotonic()) < end_s:
            assert not producer.put("GOOD", records.encode(records.Fields(b"x" * 100)))
            wire.ack(*wire.get("GOOD"))
            rounds.append((time.monotonic() - start_s) * 1_000)
            if len(rounds) % DOOR_EVERY == 1:
                start_s = time.monotonic()
                with Wire(unix) as door:
                    door.send(m.Hello(m.MAGIC, 1, 1, "client", "operator"))
                    door.next(m.Welcome)
                    door.ask(m.Status)
                doors.append((time.monotonic() - start_s) * 1_000)
            time.sleep(PERIOD_S)
    return {"rounds_ms": rounds, "doors_ms": doors}


def fill(daemon: Daemon) -> None:
    """Puts the large messages."""
    with daemon.connect() as wire:
        for queue in ("LARGE", "GOOD"):
            wire.ask(m.QueueCreate, queue)
        producer = wire.producer(os.urandom(16))
        for _ in range(LARGE_MESSAGES):
            assert not producer.put("LARGE", records.encode(records.Fields(bytes(LARGE_BYTES))))


def run(daemon: Daemon, count: int, seconds: float) -> dict[str, Any]:
    """Measures how the crowd affects a running daemon and the well-behaved client."""
    fill(daemon)
    tcp, unix = daemon.find("listening")[0]["addresses"]
    before_mib = own_memory_mib(daemon.process.pid)
    command = [sys.executable, "-m", "tests.process.crowd", "--behave", tcp, unix, str(seconds + 1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as good:
        assert good.stdout is not None
        assert good.stdout.readline() == "ready\n"
        memory: list[float] = []
        ends = asyncio.run(
            crowd(daemon, count, seconds, lambda: memory.append(own_memory_mib(daemon.process.pid)))
        )
        found = json.loads(good.stdout.read())
    return {
        "connections": count,
        "memory_before_mib": round(before_mib),
        "memory_peak_mib": round(max(memory)),
        "memory_end_mib": round(memory[-1]),
        "rounds": len(found["rounds_ms"]),
        **{f"round_{name}_ms": value for name, value in _quantiles(found["rounds_ms"]).items()},
        **{f"door_{name}_ms": value for name, value in _quantiles(found["doors_ms"]).items()},
        "ends": dict(ends),
    }


def _quantiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    if not ordered:
        return {}
    at = {"p50": last // 2, "p99": last * 99 // 100, "max": last}
    return {name: round(ordered[index], 1) for name, index in at.items()}


def main() -> None:
    """Runs the crowd, or the well-behaved client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--behave", nargs=3, metavar=("TCP", "UNIX", "SECONDS"))
    options = parser.parse_args()
    if options.behave:
        tcp, unix, seconds = options.behave
        print(json.dumps(behave(tcp, unix, float(seconds))))
        return
    with tempfile.TemporaryDirectory() as directory:
        daemon = Daemon(Path(directory) / "data", listen={"tcp": ["127.0.0.1:0"]})
        try:
            print(json.dumps(run(daemon.start(), options.connections, options.seconds), indent=2))
            print("log:", Counter(f"{x['event']}: {x.get('code', '')}" for x in daemon.log))
            print("exit code:", daemon.stop())
        finally:
            daemon.close()


if __name__ == "__main__":
    main()
