"""Tests that each failure to dial is a return value, and never an exception."""

import asyncio
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from qmgrd.core.context.context import Dial
from qmgrd.core.peer import Peer
from qmgrd.net import dialler
from qmgrd.net.dialler import dial
from qmgrd.net.session import SocketSession
from tests.qmgrd.net.test_session import Host


def protocol() -> Any:
    return cast(Any, asyncio.Protocol())


async def test_dial_reaches_a_port_and_a_socket(tmp_path: Path) -> None:
    reached: asyncio.Queue[str] = asyncio.Queue()

    class Answering(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            reached.put_nowait("reached")
            transport.close()

    loop = asyncio.get_running_loop()
    tcp = await loop.create_server(Answering, "127.0.0.1", 0)
    unix = await loop.create_unix_server(Answering, str(tmp_path / "s"))
    port = tcp.sockets[0].getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"localhost:{port}", f"unix:{tmp_path}/s"):
        assert await dial(address, protocol) == ""
        async with asyncio.timeout(20):
            assert await reached.get() == "reached"
    for server in (tcp, unix):
        server.close()
        await server.wait_closed()


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    why = await dial(f"127.0.0.1:{port}", protocol)
    assert why.startswith(f"127.0.0.1:{port}: ")
    assert "refused" in why or "Connect call failed" in why


async def test_no_such_socket(tmp_path: Path) -> None:
    assert "No such file" in await dial(f"unix:{tmp_path}/none", protocol)


@pytest.mark.parametrize(
    "address",
    ["a..b:1", f"{'x' * 64}.example:1", "nul\0host:1", "unix:/nul\0", f"unix:/{'x' * 200}"],
)
async def test_invalid_address_is_reported(address: str) -> None:
    """A link's address is checked only when the link dials."""
    assert (await dial(address, protocol)).startswith(f"{address}: ")


async def test_peer_that_does_not_answer_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialler, "DIAL_MAX_S", 0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(("127.0.0.1", port))
            why = await dial(f"127.0.0.1:{port}", protocol)
    assert why == f"127.0.0.1:{port}: no answer within 0.05 s"


async def test_session_whose_dial_ends_just_after_the_connect_is_lost_once(tmp_path: Path) -> None:
    """uvloop closes the transport of such a session, and does not call it."""
    host, dials, loop = Host(), list[asyncio.Task[str]](), asyncio.get_running_loop()

    def make_peer(session: SocketSession) -> Peer:
        dials[0].cancel()
        return host.make_peer(session, Dial("QM2", "far", 1))

    path = str(tmp_path / "s")
    server = await loop.create_unix_server(asyncio.Protocol, path)
    dials.append(loop.create_task(dial(f"unix:{path}", lambda: SocketSession(host, make_peer))))
    with pytest.raises(asyncio.CancelledError):
        await dials[0]
    server.close()
    await server.wait_closed()
    assert host.opened.qsize() == host.closed.qsize() == 1
