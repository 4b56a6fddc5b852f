"""Tests of dialling: back-off, time limits and error messages."""

import asyncio
import errno
import socket
from pathlib import Path

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
    dialler = Dialler(session, Address("x", 1), ConnectTimes(None, None))
    for failures, longest_ms in [(0, 100), (1, 200), (3, 800), (7, 10_000), (1_000, 10_000)]:
        pauses = [dialler._pause_ms(failures, None) for _ in range(50)]
        assert longest_ms / 2 <= min(pauses) < max(pauses) <= longest_ms
    session.retry_after_ms = 60_000
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
