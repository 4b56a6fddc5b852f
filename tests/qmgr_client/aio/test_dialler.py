"""Tests of dialling: back-off, time limits and error messages."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.address import Address
from qmgr_client.aio import ConnectFailed, ConnectionEnded, connect
from qmgr_client.aio.dialler import ConnectTimes, Dialler, explained
from qmgr_client.aio.session import Session
from qmgr_client.client_name import client_name
from qmgr_client.sansio.core import ClientCore
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.states import Side
from tests.qmgr_client.listener import listening


@pytest.mark.parametrize(
    ("error", "why", "hint"),
    [
        (OSError(errno.ECONNREFUSED, ""), "Connection refused", "running there"),
        (OSError(errno.ENOENT, ""), "No such file", "running there"),
        (OSError(errno.EACCES, ""), "Permission denied", "may this user"),
        (OSError(errno.EHOSTUNREACH, ""), "No route", "reachable"),
        (OSError("Multiple exceptions: ..."), "Multiple", "reachable"),
        (
            OSError(
                "Multiple exceptions: [Errno 111] Connect call failed ('::1', 7470, 0, 0), "
                "[Errno 111] Connect call failed ('127.0.0.1', 7470)"
            ),
            "Connection refused",
            "running there",
        ),
        (OSError("Multiple exceptions: [Errno 111] A, [Errno 113] B"), "Multiple", "reachable"),
        (socket.gaierror(-2, "Name or service not known"), "not known", "name right"),
    ],
)
def test_failure_has_a_reason_and_a_hint(error: OSError, why: str, hint: str) -> None:
    found = explained(error)
    assert why in found[0]
    assert hint in found[1]


async def test_pause_doubles_up_to_a_limit_and_jitters() -> None:
    session = Session(ClientCore("test", b"p" * 16))
    dialler = Dialler(session, [Address("x", 1)], ConnectTimes(None, None))
    for failures, longest_ms in [(0, 100), (1, 200), (3, 800), (7, 10_000), (1_000, 10_000)]:
        pauses = [dialler._pause_ms(failures, None) for _ in range(50)]
        assert longest_ms / 2 <= min(pauses) < max(pauses) <= longest_ms
    dialler._has_standby = True
    assert all(dialler._pause_ms(n, None) <= 500 for n in range(50)), "a standby takes over soon"
    session.retry_after_ms = 60_000
    dialler._note_failure()
    assert dialler._pause_ms(0, None) == 60_000, "the queue manager's retry time applies"
    assert dialler._pause_ms(0, session.now_ms() + 20) <= 20, "the time limit also applies"


@pytest.mark.parametrize("name", ["", "billing"])
async def test_client_sends_its_name(name: str, tmp_path: Path) -> None:
    shown = name or client_name()
    async with listening(tmp_path) as listener:
        manager = connect(listener.address, name=name)
        opening = asyncio.create_task(manager.open())
        hello = await (await listener.next()).hear(m.Hello)
        assert hello.name == shown
        opening.cancel()
        await asyncio.wait([opening])


async def test_peer_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        with pytest.raises(ConnectFailed, match=r"no answer within \d+ ms; is it reachable"):
            async with connect(listener.address, wait_ms=60):
                pass


async def test_peer_that_hangs_up_has_a_hint(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:

        async def hang_up() -> None:
            talk = await listener.next()
            await talk.hear(m.Hello)
            talk.close()

        hanging_up = asyncio.create_task(hang_up())
        with pytest.raises(ConnectFailed, match=r"is it a qmgrd\?"):
            async with connect(listener.address):
                pass
        await hanging_up


async def test_queue_manager_without_room_is_known_as_one(tmp_path: Path) -> None:
    async def turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        goaway = m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, "all places are taken", 0)
        writer.write(Connection(Side.LISTENER).send(goaway))
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(turn_away, f"{tmp_path}/full.sock")
    with pytest.raises(ConnectFailed, match="ended the connection: all places") as failure:
        async with connect(f"unix:{tmp_path}/full.sock", wait_ms=0):
            pass
    server.close()
    assert failure.value.hint == "check the log of the queue manager"
    assert failure.value.code == ErrorCode.CONNECTIONS_EXHAUSTED


async def test_peer_with_another_protocol_is_not_dialled_again(tmp_path: Path) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(speak, f"{tmp_path}/http.sock")
    with pytest.raises(ConnectionEnded, match="no queue manager answers: frame of"):
        async with connect(f"unix:{tmp_path}/http.sock", wait_ms=None):
            pass
    server.close()


async def test_refused_hello_is_not_tried_again(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:

        async def refuse() -> None:
            talk = await listener.next()
            await talk.hear(m.Hello)
            talk.say(m.Goaway(ErrorCode.NOT_AUTHORIZED, "not you"))

        refusing = asyncio.create_task(refuse())
        with pytest.raises(ConnectionEnded, match="not you") as caught:
            async with connect(listener.address, wait_ms=None):
                pass
        assert caught.value.code == ErrorCode.NOT_AUTHORIZED
        await refusing


async def test_opening_can_be_given_up(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        manager = connect(listener.address, wait_ms=None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await manager.open()
        await manager.close()


async def test_lost_connection_is_given_up_after_a_while(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        manager = connect(listener.address, give_up_ms=50)
        await manager.open()
        talk = await greeting
        asking = asyncio.create_task(manager.admin.status())
        await talk.hear(m.Status)
        Path(f"{tmp_path}/listener.sock").unlink()
        talk.close()
        with pytest.raises(ConnectionEnded, match="no connection to unix:"):
            await asking
        await manager.close()


async def test_invalid_host_name_is_reported() -> None:
    with pytest.raises(ConnectFailed, match="label empty") as failure:
        await connect("a..b:7470").open()
    assert failure.value.hint == "is the name right?"


# -- several addresses


class Member:
    """One process of a queue manager with standbys, on a port that stays the same.

    ``answers`` has the answer to each hello: NOT_ACTIVE, the welcome, or a Goaway. The last one
    repeats.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.dialled = 0
        self.port = 0
        self._dials: asyncio.Queue[None] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        accept: Callable[..., Any] = self._accept
        self._server = await asyncio.start_server(accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        far = Connection(Side.LISTENER)
        far.receive(await reader.read(1 << 16), 0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.note_dial()
        if answer is None:
            return
        writer.write(far.send(answer))
        if isinstance(answer, m.Welcome):
            await reader.read(1 << 16)
        else:
            writer.close()

    def note_dial(self) -> None:
        self.dialled += 1
        self._dials.put_nowait(None)

    async def dials(self, count: int) -> None:
        """Returns when *count* more clients have sent a hello."""
        for _ in range(count):
            await self._dials.get()

    def cut(self) -> None:
        """Cuts all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def stop(self) -> None:
        """Listens no more, and cuts all connections."""
        if self._server is not None:
            self._server.close()
        self.cut()


STANDBY = m.Goaway(ErrorCode.NOT_ACTIVE, "NYC is active at 10.0.0.2:7470", 60_000)
WELCOME = m.Welcome(1, "NYC", b"s" * 16, 1)


@asynccontextmanager
async def members(*each: Member) -> AsyncIterator[str]:
    """Starts members. Yields the list of their addresses."""
    for one in each:
        await one.start()
    try:
        yield ",".join(one.address for one in each)
    finally:
        for one in each:
            one.stop()


async def test_client_finds_the_active_member_in_one_round() -> None:
    each = [Member(STANDBY), Member(STANDBY), Member(WELCOME)]
    async with members(*each) as addresses, asyncio.timeout(5):
        manager = connect(addresses, wait_ms=0)
        await manager.open()
        assert manager.name == "NYC"
        await manager.close(timeout_ms=0)
    assert [one.dialled for one in each] == [1, 1, 1]


async def test_address_at_which_nobody_listens_is_passed_over() -> None:
    down, active = Member(WELCOME), Member(WELCOME)
    async with members(down, active) as addresses, asyncio.timeout(5):
        down.stop()
        manager = connect(addresses, wait_ms=0)
        await manager.open()
        await manager.close(timeout_ms=0)
    assert active.dialled == 1


async def test_address_that_does_not_answer_leaves_time_for_the_others() -> None:
    silent, active = Member(None), Member(WELCOME)
    async with members(silent, active) as addresses:
        manager = connect(addresses, wait_ms=400)
        await manager.open()
        await manager.close(timeout_ms=0)


async def test_failure_names_all_addresses_and_their_reasons() -> None:
    down, standby = Member(None), Member(STANDBY)
    async with members(down, standby) as addresses:
        down.stop()
        with pytest.raises(ConnectFailed) as failure:
            await connect(addresses, wait_ms=0).open()
    assert failure.value.address == addresses
    assert failure.value.why == (
        f"{down.address}: Connection refused; {standby.address}: the queue manager ended the "
        "connection: NYC is active at 10.0.0.2:7470"
    )
    assert "taking over" in failure.value.hint
    assert failure.value.code == ErrorCode.NOT_ACTIVE


async def test_client_connects_soon_after_a_takeover() -> None:
    """The standbys ask for a pause of a minute, but one of them takes over within a second."""
    each = [Member(*[STANDBY] * 4, WELCOME), Member(STANDBY)]
    async with members(*each) as addresses, asyncio.timeout(10):
        manager = connect(addresses, wait_ms=None)
        await manager.open()
        await manager.close(timeout_ms=0)
    assert [one.dialled for one in each] == [5, 4]


async def test_lost_connection_is_restored_at_the_same_address_first() -> None:
    first, second = Member(STANDBY, STANDBY, WELCOME), Member(WELCOME)
    async with members(first, second) as addresses, asyncio.timeout(5):
        manager = connect(addresses, wait_ms=0)
        await manager.open()
        await second.dials(1)
        second.cut()
        await second.dials(1)
        assert first.dialled == 1
        second.stop()
        await first.dials(3)  # It is a standby once more, and then active.
        await manager.close(timeout_ms=0)


@pytest.mark.parametrize("code", [ErrorCode.NOT_ACTIVE, ErrorCode.SHUTTING_DOWN])
async def test_member_that_stops_being_active_is_not_tried_first(code: ErrorCode) -> None:
    class Ending(Member):
        async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.note_dial()
            far = Connection(Side.LISTENER)
            far.receive(await reader.read(1 << 16), 0)
            writer.write(far.send(WELCOME) + far.send(m.Goaway(code, "stepping down", 60_000)))
            writer.close()

    first, second = Ending(), Member(WELCOME)
    async with members(first, second) as addresses, asyncio.timeout(5):
        manager = connect(addresses, wait_ms=0)
        await manager.open()
        await second.dials(1)
        assert first.dialled == 1
        await manager.close(timeout_ms=0)


async def test_only_address_of_a_standby_is_dialled_often() -> None:
    only = Member(*[STANDBY] * 3, WELCOME)
    async with members(only) as address, asyncio.timeout(5):
        manager = connect(address, wait_ms=None)
        await manager.open()
        await manager.close(timeout_ms=0)
    assert only.dialled == 4


async def test_attempts_take_longer_in_each_round_of_several_addresses() -> None:
    session = Session(ClientCore("test", b"p" * 16))
    addresses = [Address("x", 1), Address("x", 2)]
    dialler = Dialler(session, addresses, ConnectTimes(None, None))
    assert [dialler._limit_ms(n, None) for n in (0, 1, 2, 3, 99)] == [2_000, 4_000, 8_000] + [
        10_000
    ] * 2
    assert 490 <= dialler._limit_ms(0, session.now_ms() + 1_000) <= 500
    assert dialler._limit_ms(0, session.now_ms()) == 2_000, "without a time, one round is made"
