"""Measures logins, and a client next to half-open handshakes: python -m tests.process.logins.

    rate     a generator logs in and leaves, over TCP and over TLS       logins per second
    crowd    10,000 TLS handshakes that never end ──┐
             200 logins per second                ──┼─▶ daemon ◀── a client that puts and gets
                                                    ┘              its p99, calm and under attack

The generator computes the keys of a password once, as a client that keeps them could. So the daemon
is the bottleneck, and not the 15,000 iterations at the client.
"""

import argparse
import asyncio
import functools
import hashlib
import json
import multiprocessing
import os
import secrets
import socket
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from qmgr_client.aio import QueueManager, connect
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import LocalProtocolError
from qmgr_protocol.scram import ClientLogin
from qmgr_protocol.states import Side
from tests.certificates import Certificates
from tests.process.daemon import Daemon
from tests.process.hostile.watch import Watch

USER, PASSWORD = "app", "a password for measurements"
AT_ONCE = 8  # logins of the generator at the same time
PERIOD_S = 0.005  # time between two rounds of the client
WINDOW_S = 5.0
CONNECTS_PER_S = 2_000  # new half-open handshakes of the crowd
QUEUE = "Q"


class Stage:
    """A daemon with users and TLS."""

    def __init__(self, directory: Path) -> None:
        self.files = Certificates(directory / "tls")
        self.daemon = Daemon(
            directory / "data",
            listen={"tcp": ["127.0.0.1:0"], "tls": ["127.0.0.1:0"], "connections_max": 20_000},
            tls=self.files.section(),
        ).start()
        addresses: list[str] = self.daemon.find("listening")[0]["addresses"]
        self.tcp, self.tls, self.unix = (
            next(x for x in addresses if x.startswith(start)) for start in ("127", "tls:", "unix:")
        )

    def client(self, address: str) -> QueueManager:
        """Returns a client that logs in."""
        tls = self.files.options() if address == self.tls else None
        return connect(address, user=USER, password=PASSWORD, tls=tls)

    async def prepare(self) -> None:
        """Creates the users and the queue."""
        async with connect(self.unix) as owner:
            await owner.admin.user_create("root", "a root password", roles=["administrator"])
            await owner.admin.user_create(USER, PASSWORD)
            await owner.admin.queue_create(QUEUE)
            await owner.admin.grant_create(["put", "get"], "queue", QUEUE, user=USER)

    def cpu_s(self) -> float:
        """Returns the processor time of the daemon."""
        fields = Path(f"/proc/{self.daemon.process.pid}/stat").read_text().rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def stage() -> Iterator[Stage]:
    """Starts a daemon, and ends it."""
    with tempfile.TemporaryDirectory() as directory:
        found = Stage(Path(directory))
        try:
            asyncio.run(found.prepare())
            yield found
        finally:
            found.daemon.close()


def keep_keys() -> None:
    """Computes the key of each password and salt only once in this process."""
    setattr(hashlib, "pbkdf2_hmac", functools.cache(hashlib.pbkdf2_hmac))  # noqa: B010


async def log_in(address: str, ca_file: str, source: str = "") -> None:
    """Logs in once, and closes the connection."""
    host, _, port = address.removeprefix("tls:").rpartition(":")
    context = None
    if address.startswith("tls:"):
        context = _context(ca_file)
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=context, local_addr=local, server_hostname=host if context else None
    )
    try:
        connection = Connection(Side.DIALLER)
        login = ClientLogin(USER, PASSWORD, secrets.token_urlsafe(18))
        hello = m.Hello(m.MAGIC, m.VERSION, m.VERSION, "client", "login")
        hello = hello._replace(auth_method=login.method, auth_data=login.first())
        writer.write(connection.send(hello))
        challenge = await _next(reader, connection)
        writer.write(connection.send(m.AuthAnswer(login.answer(challenge.data))))
        login.check((await _next(reader, connection)).auth_data)
    finally:
        writer.transport.abort()


@functools.cache
def _context(ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(["qmgr"])
    return context


async def _next(reader: asyncio.StreamReader, connection: Connection) -> Any:
    while True:
        data = await reader.read(1 << 16)
        for message, _ in connection.receive(data, 0):
            if type(message) is m.Goaway:
                raise ConnectionRefusedError(message.text)
            return message
        if not data:
            raise ConnectionResetError("closed during the login")


# -- logins per second


async def _log_in_again(address: str, ca_file: str, until_s: float, count: Counter[str]) -> None:
    while time.monotonic() < until_s:
        await log_in(address, ca_file)
        count["logins"] += 1


async def _generate(address: str, ca_file: str, seconds: float) -> int:
    count: Counter[str] = Counter()
    until_s = time.monotonic() + seconds
    await asyncio.gather(*(_log_in_again(address, ca_file, until_s, count) for _ in range(AT_ONCE)))
    return count["logins"]


def _generator(address: str, ca_file: str, seconds: float, answer: Any) -> None:
    keep_keys()
    answer.send(asyncio.run(_generate(address, ca_file, seconds)))


def measure_rate(found: Stage, address: str, seconds: float) -> dict[str, float]:
    """Returns the logins per second over *address*, and the processor time of one at the daemon."""
    ours, theirs = multiprocessing.Pipe()
    cpu_s, start_s = found.cpu_s(), time.monotonic()
    child = multiprocessing.Process(
        target=_generator, args=(address, found.files.ca, seconds, theirs)
    )
    child.start()
    theirs.close()
    count = ours.recv()
    child.join()
    took_s, cpu_s = time.monotonic() - start_s, found.cpu_s() - cpu_s
    return {
        "logins": count,
        "logins_per_s": round(count / seconds, 1),
        "daemon_ms_per_login": round(cpu_s / max(count, 1) * 1e3, 3),
        "daemon_busy": round(cpu_s / took_s, 2),
    }


# -- a client next to a crowd


class Crowd:
    """Half-open handshakes and logins, from many addresses of this machine."""

    def __init__(self, found: Stage, half_open: int, logins_per_s: int) -> None:
        self.counts: Counter[str] = Counter()
        self._address, self._ca = found.tls, found.files.ca
        self._half_open, self._logins_per_s = half_open, logins_per_s
        host, _, port = found.tls.removeprefix("tls:").rpartition(":")
        self._to = host, int(port)
        self._hello = _client_hello(found.files.ca)

    async def run(self, running: Any) -> None:
        """Attacks while *running* is set, and does nothing otherwise."""
        places = asyncio.Semaphore(self._half_open)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._log_in(running))
            while True:
                await asyncio.sleep(0.01)
                for _ in range(int(CONNECTS_PER_S * 0.01) if running.is_set() else 0):
                    if not places.locked():
                        await places.acquire()
                        tasks.create_task(self._open_half(places, self.counts["opened"]))
                        self.counts["opened"] += 1

    async def _open_half(self, places: asyncio.Semaphore, number: int) -> None:
        """Begins a handshake, and waits until the daemon closes the connection."""
        loop, sock = asyncio.get_running_loop(), socket.socket()
        with sock, suppress(OSError):
            sock.setblocking(False)
            sock.bind((_address(number), 0))
            await loop.sock_connect(sock, self._to)
            # Every second connection stops in the middle of its first record.
            half = len(self._hello) // 2
            await loop.sock_sendall(sock, self._hello[: half if number % 2 else None])
            while await loop.sock_recv(sock, 1 << 16):
                pass
        self.counts["closed by the daemon"] += 1
        places.release()

    async def _log_in(self, running: Any) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(1 / self._logins_per_s)
                if running.is_set():
                    self.counts["begun"] += 1
                    tasks.create_task(self._log_in_once())

    async def _log_in_once(self) -> None:
        try:
            await log_in(self._address, self._ca, f"127.9.9.{1 + self.counts['begun'] % 100}")
            self.counts["logins"] += 1
        except (OSError, LocalProtocolError) as error:
            self.counts[f"failed logins ({type(error).__name__})"] += 1


def _address(number: int) -> str:
    """Returns one of 500 addresses of this machine."""
    return f"127.0.{1 + number % 2}.{1 + number // 2 % 250}"


def _client_hello(ca_file: str) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = _context(ca_file).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        half.do_handshake()
    return outgoing.read()


def _crowd(found: Stage, half_open: int, logins_per_s: int, running: Any, counts: Any) -> None:
    keep_keys()
    os.nice(5)  # The crowd would run on other machines, and take no processor from the daemon.

    async def attack() -> None:
        crowd = Crowd(found, half_open, logins_per_s)
        task = asyncio.create_task(crowd.run(running))
        while not counts.poll():
            await asyncio.sleep(0.1)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        counts.send(dict(crowd.counts))

    asyncio.run(attack())


async def _be_well(found: Stage, rounds: int, running: Any, address: str) -> Watch:
    watch = Watch()
    async with found.client(address) as client:
        watch.look_at(found.daemon.process.pid)
        lag = asyncio.create_task(watch.keep_lag())
        for turn in range(2 * rounds):
            kind = "attack" if turn % 2 else "calm"
            running.set() if kind == "attack" else running.clear()
            await asyncio.sleep(1.0)
            watch.open(kind)
            until_s = time.monotonic() + WINDOW_S
            while time.monotonic() < until_s:
                mark = watch.start("put, get and acknowledge")
                await client.put(QUEUE, b"well-behaved")
                message = await client.get(QUEUE)
                assert message is not None
                await client.ack(message)
                watch.done(mark)
                await asyncio.sleep(PERIOD_S)
            watch.close()
        lag.cancel()
    return watch


def measure_crowd(
    found: Stage, half_open: int, logins_per_s: int, rounds: int, address: str
) -> dict[str, Any]:
    """Returns the p99 of a client over *address*, in turns calm and next to a crowd."""
    running = multiprocessing.Event()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(
        target=_crowd, args=(found, half_open, logins_per_s, running, theirs)
    )
    child.start()
    theirs.close()
    watch = asyncio.run(_be_well(found, rounds, running, address))
    ours.send("enough")
    counts = ours.recv()
    child.join()
    return {
        "p99_calm_ms": round(watch.median_p99_ms("calm"), 2),
        "p99_attack_ms": round(watch.median_p99_ms("attack"), 2),
        "p99_ratio": round(watch.p99_ratio, 2),
        "longest_ms": round(watch.longest_ms, 1),
        "rounds": watch.operations,
        "crowd": counts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--half-open", type=int, default=10_000)
    parser.add_argument("--logins-per-s", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with stage() as found:
        report = {
            "rate over TCP": measure_rate(found, found.tcp, args.seconds),
            "rate over TLS": measure_rate(found, found.tls, args.seconds),
            "client next to a crowd": measure_crowd(
                found, args.half_open, args.logins_per_s, args.rounds, found.tls
            ),
        }
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
