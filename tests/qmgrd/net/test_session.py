"""Tests of a connection on the event loop, over real sockets."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from qmgr_config.model import LimitsConfig
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.states import Side
from qmgrd.core.arrivals.arrival import Arrival
from qmgrd.core.context.context import Dial
from qmgrd.core.intake import AHEAD_MAX_BYTES, Intake
from qmgrd.core.peer import Peer
from qmgrd.core.sessions.session_token import SessionTokens
from qmgrd.net import other_protocol
from qmgrd.net import session as sessions
from qmgrd.net.large_frames import LargeFrames
from qmgrd.net.session import SocketSession
from qmgrd.net.unsent import Unsent
from tests.qmgrd.core.harness import SECRET

HELLO = m.Hello(m.MAGIC, 1, 1, "client", "app")
WELCOME = m.Welcome(1, "QM1", b"S" * 16, 7)
TOKENS = SessionTokens(SECRET, b"salt")


class Host:
    """The host of a session, with events for which tests wait."""

    def __init__(self, *, refusal: m.Goaway | None = None) -> None:
        self.refusal = refusal
        self.clock_ms = 0
        self.turns = 0
        self.intake = Intake()
        self.sessions: dict[int, SocketSession] = {}
        self.frames = LargeFrames(64 << 20, self.intake, {})
        self.unsent = Unsent(64 << 20, 4 << 20, 30_000, self.sessions)
        self.ahead: list[SocketSession] = []
        self.blocked: list[bool] = []
        self.failed: list[Exception] = []
        self.opened: asyncio.Queue[SocketSession] = asyncio.Queue()
        self.closed: asyncio.Queue[str] = asyncio.Queue()
        self.turn = asyncio.Event()

    def now_ms(self) -> int:
        return self.clock_ms

    def session_advanced(self, session: SocketSession) -> None:
        """The host of these tests has no limits of greetings."""

    def want_turn(self) -> None:
        self.turns += 1
        self.turn.set()

    def session_entered(self, session: SocketSession) -> None:
        self.sessions[session.peer.number] = session
        self.opened.put_nowait(session)

    def session_ahead(self, session: SocketSession) -> None:
        self.ahead.append(session)

    def session_blocked(self, session: SocketSession, *, is_blocked: bool) -> None:
        self.blocked.append(is_blocked)

    def session_failed(self, session: SocketSession, error: Exception) -> None:
        self.failed.append(error)
        session.cut_off(m.Goaway(ErrorCode.INTERNAL_ERROR, "failed"))

    def take(self, count: int = 1_000) -> list[Arrival]:
        """Processes the arrivals, as a turn does."""
        arrivals = [arrival for _, arrival in self.intake.take(count, 1 << 40)]
        self.ahead = [session for session in self.ahead if not session.read_on()]
        return arrivals

    def session_closed(self, session: SocketSession, why: str) -> None:
        self.sessions.pop(session.peer.number, None)
        self.closed.put_nowait(why)

    def make_peer(self, session: SocketSession, dial: Dial | None = None) -> Peer:
        limits = LimitsConfig(heartbeat_ms=100, liveness_ms=300)
        return Peer(
            1,
            self.intake,
            limits,
            WELCOME,
            TOKENS,
            self.clock_ms,
            dial=dial,
            admit=lambda hello: self.refusal,
        )


class Client:
    """The far end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.wire = Connection(Side.DIALLER)

    def send(self, *messages: Any) -> None:
        self.writer.write(b"".join(map(self.wire.send, messages)))

    async def hear(self) -> list[Any]:
        """Waits for at least one message, or for the end of the connection."""
        while data := await self.reader.read(1 << 16):
            if found := [message for message, _ in self.wire.receive(data, 0)]:
                return found
        return []


@asynccontextmanager
async def serving(path: Path, host: Host) -> AsyncIterator[tuple[Client, SocketSession]]:
    """A session, and the client that has dialled it."""
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: SocketSession(host, host.make_peer), str(path))
    async with asyncio.timeout(20):
        client = Client(*await asyncio.open_unix_connection(str(path)))
        session = await host.opened.get()
        yield client, session
        client.writer.close()
        if host.closed.empty():
            await host.closed.get()
        server.close()
        await server.wait_closed()


async def test_connection_that_is_reset_before_it_is_accepted_is_not_read() -> None:
    """The kernel does not know the peer any more. It must not pass for the unix socket."""
    host, client = Host(), Connection(Side.DIALLER)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_connection(listening.getsockname()) as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stranger.sendall(client.send(HELLO))
        accepted, _ = listening.accept()
    accepted.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(
        lambda: SocketSession(host, host.make_peer), accepted
    )
    async with asyncio.timeout(20):
        session = await host.opened.get()
        await host.closed.get()
    assert (session.origin, session.is_owner) == ("reset", False)
    assert not session.peer.peer_name


async def test_received_message_requests_a_turn(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        (welcome,) = await client.hear()
        assert welcome == WELCOME._replace(session=welcome.session)
        assert session.peer.is_open
        assert session.address == "unix"
        host.turn.clear()
        client.send(m.Status(1))
        await host.turn.wait()
        facts = session.facts
        size = facts.pop("waiting_bytes")
        assert facts == {
            "address": "unix",
            "waiting": 1,
            "delayed_by": "",
            "delay_ms": 0,
            "token_ms": None,
            "unsent_bytes": 0,
        }
        assert 0 < size < 10
        assert [bool(x.event) for _, x in host.intake.take(9, 999)] == [True, False]
        assert session.facts["waiting"] == 0


async def test_message_may_arrive_in_any_number_of_pieces(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, _):
        for byte in client.wire.send(HELLO):
            client.writer.write(bytes([byte]))
            await client.writer.drain()
        (welcome,) = await client.hear()
        assert welcome == WELCOME._replace(session=welcome.session)


async def test_peer_that_breaks_the_protocol_is_reported_and_closed(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.writer.write(b"SSH-2.0-OpenSSH\r\n")
        (goaway,) = await client.hear()
        assert goaway.code == ErrorCode.FRAME_TOO_LARGE
        assert await client.hear() == []
        client.writer.close()
        assert await host.closed.get() == goaway.text
        assert session.peer.goaway == goaway
        host.closed.put_nowait("")


async def test_http_is_answered_in_http(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await client.reader.read() == other_protocol.HTTP.answer
        client.writer.close()
        assert await host.closed.get() == other_protocol.HTTP.why
        assert session.peer.goaway == m.Goaway(ErrorCode.FRAME_TOO_LARGE, other_protocol.HTTP.why)
        host.closed.put_nowait("")


async def test_tls_is_named_in_the_goodbye(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, _):
        client.writer.write(bytes.fromhex("16030102000100"))
        (goaway,) = await client.hear()
        assert goaway.text == other_protocol.TLS.why
        client.writer.close()
        assert await host.closed.get() == goaway.text
        host.closed.put_nowait("")


async def test_open_connection_is_never_taken_for_http(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, _):
        client.send(HELLO)
        await client.hear()
        client.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        (goaway,) = await client.hear()
        assert (goaway.code, goaway.text[:9]) == (ErrorCode.FRAME_TOO_LARGE, "frame of ")
        client.writer.close()
        assert await host.closed.get() == goaway.text
        host.closed.put_nowait("")


async def test_peer_that_leaves_with_a_goodbye_is_closed(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, _):
        client.send(HELLO)
        await client.hear()
        client.send(m.Goaway(0, "done for today"))
        assert await host.closed.get() == "the peer left: done for today"
        assert await client.hear() == []
        host.closed.put_nowait("")
    events = [bool(x.event) for _, x in host.intake.take(9, 999)]
    assert events == [True, True]


async def test_peer_that_is_ahead_of_the_turns_is_not_read_from(tmp_path: Path) -> None:
    """Otherwise, a few busy peers would use the whole event loop and all memory."""
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        settle = m.Settle(1, m.ACK, 1, bytes(m.HANDLES_MAX_BYTES))
        count = 10 * AHEAD_MAX_BYTES // m.HANDLES_MAX_BYTES
        client.send(*[settle] * count)
        while not session.peer.is_ahead:
            host.turn.clear()
            await host.turn.wait()
        pending = host.intake.of(session.peer.number)
        for _ in range(100):
            await asyncio.sleep(0)
            assert pending.bytes < AHEAD_MAX_BYTES + (1 << 20)
        taken = 0
        while taken < count * len(settle.handles):
            parts: list[Any] = [x.message for x in host.take() if x.event is None]
            taken += sum(len(part.settle.handles) for part in parts)
            await asyncio.sleep(0)


async def test_peer_that_is_not_read_from_is_not_taken_for_silent(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        settle = m.Settle(1, m.ACK, 1, bytes(m.HANDLES_MAX_BYTES))
        client.send(*[settle] * 40)
        while not session.peer.is_ahead:
            host.turn.clear()
            await host.turn.wait()
        host.clock_ms = 10_000
        session.poll(host.clock_ms)
        taken = 0
        while taken < 40 * len(settle.handles):
            parts: list[Any] = [x.message for x in host.take() if x.event is None]
            taken += sum(len(part.settle.handles) for part in parts)
            session.poll(host.clock_ms)
            await asyncio.sleep(0)
        assert session.peer.goaway is None


async def test_lost_connection_is_reported_once(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, _):
        client.send(HELLO)
        await client.hear()
        client.writer.close()
        assert await host.closed.get() == "the peer closed the connection"
        host.closed.put_nowait("")
    assert [bool(x.event) for _, x in host.intake.take(9, 999)] == [True, True]


async def test_goodbye_is_written_before_the_end(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        session.say_goodbye(m.Goaway(ErrorCode.SHUTTING_DOWN, "bye"))
        session.say_goodbye(m.Goaway(ErrorCode.SHUTTING_DOWN, "bye"))
        session.write(b"too late")
        assert await client.hear() == [m.Goaway(ErrorCode.SHUTTING_DOWN, "bye")]
        assert await client.hear() == []


async def test_goodbye_reaches_a_peer_that_goes_on_sending(tmp_path: Path) -> None:
    """Closing with unread bytes would reset the connection before the peer reads the goodbye."""
    host = Host()
    async with serving(tmp_path / "s", host) as (client, _):
        client.send(HELLO)
        await client.hear()
        client.writer.write(b"\xff" * 8)
        for _ in range(64):
            client.writer.write(bytes(1 << 16))
            await client.writer.drain()
        (goaway,) = await client.hear()
        assert goaway.code == ErrorCode.FRAME_TOO_LARGE


async def test_core_is_reported_before_the_peer_has_closed_its_end(tmp_path: Path) -> None:
    """The leases of the connection are released immediately."""
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        session.say_goodbye(m.Goaway(ErrorCode.PRODUCER_FENCED, "newer"))
        assert [bool(x.event) for _, x in host.intake.take(9, 999)] == [True, True]
        assert host.closed.empty()


async def test_peer_that_does_not_close_is_closed_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LINGER_S", 0.01)
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        session.say_goodbye(m.Goaway(ErrorCode.PRODUCER_FENCED, "newer"))
        assert await host.closed.get() == "newer"
        host.closed.put_nowait("")


async def test_connection_without_a_free_slot_is_reported(tmp_path: Path) -> None:
    host = Host(refusal=m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, "full"))
    async with serving(tmp_path / "s", host) as (client, _):
        client.send(HELLO)
        (goaway,) = await client.hear()
        assert goaway.code == ErrorCode.CONNECTIONS_EXHAUSTED
        assert await client.hear() == []


async def test_silent_peer_is_pinged_then_cut_off(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        session.poll(99)
        session.poll(100)
        assert await client.hear() == [m.Ping(100)]
        session.poll(300)
        assert "received nothing for 300 ms" in await host.closed.get()
        host.closed.put_nowait("")


async def test_peer_that_fetches_nothing_is_cut_off(tmp_path: Path) -> None:
    """The memory for answers is limited."""
    host = Host()
    host.unsent.bytes_max = 1 << 20
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(8):
            session.write(bytes(1 << 20))
        assert session.unwritten_bytes() < 4 << 20
        assert "1048576 bytes of replies unread" in await host.closed.get()
        assert session.unwritten_bytes() == 0
        host.closed.put_nowait("")


@pytest.mark.parametrize("who", ["daemon", "peer", "peer, by closing its end"])
async def test_peer_that_fetches_nothing_keeps_no_connection_that_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """The core learns of the close immediately, and the socket closes soon afterwards."""
    monkeypatch.setattr(sessions, "LINGER_S", 0.01)
    monkeypatch.setattr(sessions, "FETCH_S", 0.01)
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        session.write(bytes(8 << 20))
        if who == "daemon":
            session.say_goodbye(m.Goaway(ErrorCode.CANCELLED, "closed by an operator"))
        elif who == "peer":
            client.send(m.Goaway(0, "done"))
        else:
            client.writer.write_eof()
        await host.closed.get()
        assert session.unwritten_bytes() == 0
        assert [bool(x.event) for _, x in host.intake.take(9, 999)] == [True, True]
        host.closed.put_nowait("")


async def test_paused_session_takes_nothing_more(tmp_path: Path) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        session.pause_reading()
        turns = host.turns
        client.send(m.Status(1))
        await client.writer.drain()
        session.say_goodbye(m.Goaway(ErrorCode.SHUTTING_DOWN, "bye"))
        assert (await client.hear())[0].code == ErrorCode.SHUTTING_DOWN
        assert host.turns == turns


async def test_link_says_hello_first(tmp_path: Path) -> None:
    host = Host()
    far = Connection(Side.LISTENER)
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            for message, _ in far.receive(data, 0):
                heard.put_nowait(message)
        writer.close()

    server = await asyncio.start_unix_server(answer, str(tmp_path / "far"))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(20):
        transport, _ = await loop.create_unix_connection(
            lambda: SocketSession(host, lambda new: host.make_peer(new, Dial("QM2", "far", 1))),
            str(tmp_path / "far"),
        )
        hello = await heard.get()
        assert (hello.role, hello.name) == ("queue-manager", "QM1")
        transport.close()
        await host.closed.get()
    server.close()
    await server.wait_closed()


async def test_peer_that_has_too_much_to_fetch_is_blocked_until_it_has_fetched_most(
    tmp_path: Path,
) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        session.write(bytes(4 << 20))
        while not host.blocked:
            await asyncio.sleep(0)
        assert host.blocked == [True]
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        fetched = 0
        while fetched < 4 << 20:
            fetched += len(await client.reader.read(1 << 16))
        assert host.blocked == [True, False]
        assert session.fetched_bytes() >= fetched


async def test_long_answer_counts_until_it_is_read(tmp_path: Path) -> None:
    """The unread rest of a long answer keeps the whole answer in memory."""
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        session.write(bytes(4 << 20))
        while not host.blocked:
            await asyncio.sleep(0)
        assert 0 < session.unwritten_bytes() < 4 << 20
        assert session.unsent_bytes() == 4 << 20
        session.cut_off(m.Goaway(ErrorCode.CREDIT_EXCEEDED, "enough"))
        assert session.unsent_bytes() == 0
        host.closed.put_nowait("")


async def test_answer_that_was_fetched_counts_no_more_though_short_ones_follow(
    tmp_path: Path,
) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()
        session.write(bytes(4 << 20))
        fetched = 0
        while fetched < 4 << 20:
            fetched += len(await client.reader.read(1 << 16))
        while session.unwritten_bytes():
            await asyncio.sleep(0)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not session.unwritten_bytes():
            session.write(bytes(100))
            await asyncio.sleep(0)
        assert session.unsent_bytes() < 1_000
        session.cut_off(m.Goaway(ErrorCode.CREDIT_EXCEEDED, "enough"))
        host.closed.put_nowait("")


async def test_peer_whose_bytes_cannot_be_held_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host()
    async with serving(tmp_path / "s", host) as (client, session):
        client.send(HELLO)
        await client.hear()

        def fail(data: bytes, now_ms: int) -> bytes:
            raise MemoryError

        monkeypatch.setattr(session.peer, "receive", fail)
        client.send(m.Status(1))
        assert await host.closed.get() == "failed"
        assert [type(error) for error in host.failed] == [MemoryError]
        host.closed.put_nowait("")
