"""Tests of samples from a real daemon whose connection is lost and restored."""

import asyncio
from pathlib import Path

import pytest

from qmgr_client.aio import connect
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.states import Side
from qmgr_tools.cli.command import Call
from qmgr_tools.top.feed import Feed, NoAnswer
from tests.qmgr_tools.conftest import Daemon

WELCOME = m.Welcome(1, "OLD", b"S" * 16, 7)


@pytest.mark.process
async def test_sample_has_all_that_is_asked(queue: str, daemon: Daemon) -> None:
    async with connect(daemon.unix) as manager:
        await manager.put(queue, b"x")
    feed = Feed(lambda: daemon.unix)
    first, second = await feed.sample(), await feed.sample()
    assert first.status["name"] == "QM"
    ready = {row["queue"]: row.get("ready") for row in first.queues}  # An alias has no value.
    assert ready[queue] == 1
    assert [row["name"].split(".")[0] for row in first.connections][-1] == "qmctl"
    assert second.time_ms >= first.time_ms
    assert [row["connection"] for row in first.connections] == [
        row["connection"] for row in second.connections
    ]  # All samples use one connection.
    await feed.close()
    await feed.close()


@pytest.mark.process
async def test_lost_daemon_is_told_and_found_again(own_daemon: Daemon) -> None:
    feed = Feed(lambda: own_daemon.unix)
    boot = (await feed.sample()).status["boot"]
    own_daemon.program.stop()
    for _ in range(3):
        with pytest.raises(NoAnswer):
            await feed.sample()
    with pytest.raises(NoAnswer, match="cannot connect to unix:"):
        await feed.sample()
    own_daemon.start()
    assert (await feed.sample()).status["boot"] == boot + 1
    await feed.close()


@pytest.mark.process
async def test_daemon_is_looked_for_where_it_listens_now(own_daemon: Daemon) -> None:
    where = Call(data_dir=own_daemon.data_dir).pinned("test")
    feed = Feed(where.address)
    await feed.sample()
    own_daemon.program.stop()
    listening = own_daemon.data_dir / "listening.json"
    listening.unlink(missing_ok=True)
    with pytest.raises(NoAnswer):
        await feed.sample()
    with pytest.raises(NoAnswer, match="does not exist"):
        await feed.sample()
    own_daemon.start()
    assert (await feed.sample()).status["boot"] == 2
    await feed.close()


async def serve_old(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, mute: bool
) -> None:
    """Answers like a queue manager that cannot list connections, or does not answer."""
    wire = Connection(Side.LISTENER)
    while data := await reader.read(1 << 16):
        for message, _ in wire.receive(data, 0):
            if isinstance(message, m.Hello):
                writer.write(wire.send(WELCOME))
            elif mute or not isinstance(message, m.RequestWithId):
                continue
            elif isinstance(message, m.ConnectionList):
                writer.write(wire.send(m.Error(message.request_id, 200, 2, 0, "not known")))
            else:
                value: dict[str, object] = {"name": "OLD", "queues": [], "next": None, "links": []}
                writer.write(wire.send(m.Ok(message.request_id, value)))
    writer.close()


@pytest.mark.parametrize("mute", [False, True])
async def test_older_daemon_has_no_connections_and_a_mute_one_is_lost(
    tmp_path: Path, mute: bool
) -> None:
    path = str(tmp_path / "s")
    server = await asyncio.start_unix_server(lambda r, w: serve_old(r, w, mute=mute), path)
    feed = Feed(lambda: f"unix:{path}", 0.3 if mute else 20)
    if mute:
        with pytest.raises(NoAnswer, match=r"has not answered for 0.3 s"):
            await feed.sample()
    else:
        sample = await feed.sample()
        assert (sample.status["name"], sample.connections, sample.inbound) == ("OLD", [], [])
    await feed.close()
    server.close()
    await server.wait_closed()
