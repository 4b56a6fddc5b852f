"""A hostile connection, and the parts that all hostile connections share."""

import asyncio
import time
from collections import Counter
from random import Random
from typing import Any

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.frame import FrameDecoder, encode
from tests.fuzz.hostile_maker import HostileMaker

FRAME_MAX_BYTES = 8 * 1024 * 1024
FRAMES_PER_S, BYTES_PER_S = 1_000, 8 << 20
BURST_FRAMES, BURST_BYTES = 4_096, 32 << 20
ANSWER_S = 20
LOCAL_BUFFER_BYTES = 64 * 1024


class Pace:
    """A budget of frames and bytes, which all attackers share and which refills over time."""

    def __init__(self, frames_per_s: int = FRAMES_PER_S) -> None:
        self._frames_per_s = frames_per_s
        self._frames, self._bytes = float(BURST_FRAMES), float(BURST_BYTES)
        self._filled_s = time.monotonic()

    async def spend(self, frames: int, size_bytes: int) -> None:
        """Waits until the budget allows a write of *frames* frames and *size_bytes* bytes."""
        while True:
            now_s = time.monotonic()
            passed_s, self._filled_s = now_s - self._filled_s, now_s
            self._frames = min(self._frames + passed_s * self._frames_per_s, BURST_FRAMES)
            self._bytes = min(self._bytes + passed_s * BYTES_PER_S, BURST_BYTES)
            if self._frames >= 0 and self._bytes >= 0:
                self._frames -= frames
                self._bytes -= size_bytes
                return
            await asyncio.sleep(0.02)


class Raid:
    """An attack: its connections, its random choices, and its results."""

    def __init__(
        self, tcp: str, unix: str, seed: str, pace: Pace, ca: str = "", passwords: str = ""
    ) -> None:
        """Prepares an attack.

        Args:
            ca: The file of the CA, if *tcp* uses TLS.
            passwords: The directory with a password file for each user.
        """
        self.tcp, self.unix, self.ca, self.passwords = tcp, unix, ca, passwords
        self.rng = Random(seed)
        self.maker = HostileMaker(self.rng)
        self.pace = pace
        self.counts: Counter[str] = Counter()
        self.enemies: list[Enemy] = []

    async def connect(self, *, unix: bool = False) -> "Enemy":
        """Returns a connection on which nothing was sent."""
        if unix:
            reader, writer = await asyncio.open_unix_connection(
                self.unix.removeprefix("unix:"), limit=LOCAL_BUFFER_BYTES
            )
        else:
            host, _, port = self.tcp.rpartition(":")
            reader, writer = await asyncio.open_connection(
                host, int(port), limit=LOCAL_BUFFER_BYTES
            )
        enemy = Enemy(self, reader, writer)
        self.enemies.append(enemy)
        self.counts["connections"] += 1
        return enemy

    async def client(self, name: str = "hostile") -> "Enemy":
        """Returns a connection after hello and welcome."""
        enemy = await self.connect()
        await enemy.say(m.Hello(m.MAGIC, 1, 1, "client", name))
        await enemy.next(m.Welcome)
        return enemy

    def close(self) -> None:
        """Closes all connections of the attack immediately."""
        for enemy in self.enemies:
            enemy.abort()
        self.enemies.clear()


class Enemy:
    """A connection without restrictions. While reading, it answers pings."""

    def __init__(
        self, raid: Raid, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._raid, self._reader, self._writer = raid, reader, writer
        self._decoder = FrameDecoder(FRAME_MAX_BYTES)
        self._received: list[m.Message] = []
        self._last_id = 0

    def id(self) -> int:
        """Returns an unused request id."""
        self._last_id += 1
        return self._last_id

    async def say(self, *messages: m.Message) -> None:
        """Sends messages, even if the protocol does not allow them now."""
        data = b"".join(encode(layout.to_array(message)) for message in messages)
        await self.write(data, len(messages))

    async def write(self, data: bytes, frames: int = 1) -> None:
        """Sends *data*, valid or not."""
        await self._raid.pace.spend(frames, len(data))
        if self._writer.is_closing():
            raise ConnectionResetError("the daemon closed the connection")
        self._raid.counts["frames"] += frames
        self._writer.write(data)
        async with asyncio.timeout(ANSWER_S):
            await self._writer.drain()

    async def read(self) -> bytes:
        """Returns the next bytes, or b"" if the daemon closed the connection."""
        async with asyncio.timeout(ANSWER_S):
            return await self._reader.read(LOCAL_BUFFER_BYTES)

    async def ask(self, kind: Any, *fields: Any) -> Any:
        """Returns the value of the Ok that answers a request.

        Raises:
            RequestError: The request was refused.
            EOFError: The daemon closed the connection.
        """
        request_id = self.id()
        await self.say(kind(request_id, *fields))
        answer = await self.next(m.Ok, m.Error, request_id=request_id)
        if type(answer) is m.Error:
            raise RequestError(ErrorCode(answer.code), answer.text)
        return answer.value

    async def next(self, *kinds: type[Any], request_id: int = 0) -> Any:
        """Returns the next message of one of *kinds*, and discards earlier messages.

        Raises:
            EOFError: The daemon closed the connection.
        """
        async with asyncio.timeout(ANSWER_S):
            while True:
                while self._received:
                    message = self._received.pop(0)
                    if type(message) in kinds and request_id in (0, message[0]):
                        return message
                await self._receive()

    async def _receive(self) -> None:
        data = await self._reader.read(LOCAL_BUFFER_BYTES)
        if not data:
            raise EOFError("the daemon closed the connection")
        self._decoder.feed(data)
        for array, _ in self._decoder.drain():
            message = layout.parse(array)
            if type(message) is m.Ping:
                self._writer.write(encode(layout.to_array(m.Pong(message.number))))
            else:
                self._received.append(message)

    async def listen(self, seconds: float) -> None:
        """Reads for *seconds*, and discards all messages."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._receive()
                    self._received.clear()
        except TimeoutError:
            return

    async def stay_deaf(self, seconds: float) -> None:
        """Reads nothing for a while, but sends pongs, so that the connection counts as alive."""
        for _ in range(max(1, round(seconds))):
            if self._writer.is_closing():
                return
            self._writer.write(encode(layout.to_array(m.Pong(0))))
            await asyncio.sleep(1)

    def abort(self) -> None:
        """Closes the connection immediately."""
        self._writer.transport.abort()
