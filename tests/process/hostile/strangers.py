"""Attackers of a queue manager with TLS and users: handshakes, records, passwords and limits.

They work only in the act ``secured``. The good clients of this act use the same port.
"""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from qmgr_client.aio import QueueManager, connect
from qmgr_client.errors import ConnectFailed, ConnectionEnded
from qmgr_protocol.errors import RequestError
from qmgr_protocol.tls import ALPN, TlsOptions
from tests.process.hostile.enemy import Enemy, Raid
from tests.tls_forger import DATA, HANDSHAKE, KEY_UPDATE, Forger

HALF = 300  # connections with half a handshake, above listen.greetings_max
GREEDY = "greedy"
GREEDY_LIMITS = {
    "connections_max": 4,
    "queues_max": 4,
    "subscriptions_max": 4,
    "stored_bytes_max": 1 << 20,
    "puts_per_s_max": 500,
}
GUESSED = "admin", GREEDY, "nobody"
PUTS = 1_000


async def half_handshake(raid: Raid) -> None:
    """Sends parts of the first message of TLS on many connections, then nothing."""
    for _ in range(HALF):
        enemy = await raid.connect()
        hello = _Channel(enemy).hello()
        with contextlib.suppress(OSError):
            await enemy.write(hello[: raid.rng.randrange(len(hello))])
    await asyncio.sleep(30)


async def garbage(raid: Raid) -> None:
    """Sends what is not TLS to a port with TLS: random bytes, HTTP, and broken records."""
    while True:
        enemy = await raid.connect()
        hello = bytearray(_Channel(enemy).hello())
        hello[raid.rng.randrange(len(hello))] ^= 1 << raid.rng.randrange(8)
        data = (
            raid.rng.randbytes(raid.rng.randrange(1, 20_000)),
            b"GET / HTTP/1.1\r\n\r\n",
            bytes([HANDSHAKE, 3, 3, 255, 255]) + raid.rng.randbytes(5_000),
            bytes(hello),
        )
        with contextlib.suppress(OSError):
            await enemy.write(raid.rng.choice(data))
        if raid.rng.random() < 0.1:
            raid.close()


async def no_data(raid: Raid) -> None:
    """Sends records without data after the handshake."""
    await _flood(raid, DATA, b"")


async def rekey(raid: Raid) -> None:
    """Asks for new keys again and again."""
    await _flood(raid, HANDSHAKE, KEY_UPDATE)


async def renegotiate(raid: Raid) -> None:
    """Begins another handshake on an encrypted connection."""
    hello = _Channel(await raid.connect()).hello()[5:]  # without the head of the record
    await _flood(raid, HANDSHAKE, hello, count=10)


async def guess_passwords(raid: Raid) -> None:
    """Guesses passwords over TLS. A login that succeeds counts as ``let in``."""
    while True:
        user = raid.rng.choice(GUESSED)
        password = f"guess {raid.rng.randrange(10**6)}"
        await raid.pace.spend(10, 1_000)
        raid.counts["guesses"] += 1
        with contextlib.suppress(ConnectFailed, ConnectionEnded):
            async with _client(raid, user, password=password):
                raid.counts["let in"] += 1


async def use_up(raid: Raid) -> None:
    """Uses up each limit of a user who has the right to everything in its own queues."""
    name = f"H.GREEDY.{raid.rng.randrange(10**9)}"
    file = str(Path(raid.passwords) / GREEDY)
    async with contextlib.AsyncExitStack() as open_:
        client = await open_.enter_async_context(_client(raid, GREEDY, password_file=file))
        try:
            for _ in range(GREEDY_LIMITS["connections_max"]):  # one too many
                await raid.pace.spend(10, 1_000)
                await open_.enter_async_context(_client(raid, GREEDY, password_file=file))
        except (ConnectFailed, ConnectionEnded):
            raid.counts["connections refused"] += 1
        admin = client.admin
        for number in range(2 * GREEDY_LIMITS["queues_max"]):
            await _refusable(raid, partial(admin.queue_create, f"{name}.{number}"))
            subscribe = partial(admin.subscription_create, "h/#", f"{name}:{number}")
            await _refusable(raid, subscribe)
        body = bytes(2_000)
        await raid.pace.spend(PUTS, PUTS * len(body))
        puts = [client.put(f"{name}.0", body) for _ in range(PUTS)]
        found = await asyncio.gather(*puts, return_exceptions=True)
        raid.counts["refused"] += sum(isinstance(one, RequestError) for one in found)
        for number in range(GREEDY_LIMITS["queues_max"]):
            await _refusable(raid, partial(admin.queue_delete, f"{name}.{number}", purge=True))
            await _refusable(raid, partial(client.unsubscribe, f"{name}:{number}"))


async def _refusable(raid: Raid, ask: Callable[[], Awaitable[object]]) -> None:
    await raid.pace.spend(1, 100)
    try:
        await ask()
    except RequestError:
        raid.counts["refused"] += 1


def _client(raid: Raid, user: str, *, password: str = "", password_file: str = "") -> QueueManager:
    return connect(
        f"tls:{raid.tcp}",
        user=user,
        password=password,
        password_file=password_file,
        tls=TlsOptions(ca_file=raid.ca),
        reconnect=False,
    )


async def _flood(raid: Raid, kind: int, content: bytes, count: int = 100) -> None:
    """Sends *count* equal records at a time until the daemon closes the connection, repeatedly."""
    while True:
        enemy = await raid.connect()
        with tempfile.NamedTemporaryFile() as log:
            forger = await _Channel(enemy, log.name).shake_hands()
            with contextlib.suppress(OSError):
                while True:
                    records = b"".join(forger.record(kind, content) for _ in range(count))
                    await enemy.write(records, count)
                    if not await enemy.read():
                        break
        raid.counts["floods ended"] += 1
        raid.close()


class _Channel:
    """The dialling end of TLS on a connection, without checks of the other end."""

    def __init__(self, enemy: Enemy, log: str = "") -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([ALPN])
        if log:
            context.keylog_filename = log
        self._enemy, self._log = enemy, log
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)

    def hello(self) -> bytes:
        """Returns the first record."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._out.read()

    async def shake_hands(self) -> Forger:
        """Completes the handshake.

        Raises:
            EOFError: The daemon closed the connection.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._enemy.write(self._out.read())
                self._in.write(await self._enemy.read() or _closed())
            else:
                await self._enemy.write(self._out.read())
                return Forger(Path(self._log), self._tls)


def _closed() -> bytes:
    raise EOFError("the daemon closed the connection")
