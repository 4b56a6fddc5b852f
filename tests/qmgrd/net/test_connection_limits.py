"""Tests that unfinished handshakes are limited in number and time, and delay no other client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_config.model import UNIX_PLACES
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd import daemon as daemons
from qmgrd.net import connection_limits
from tests.qmgrd.net.wire import Wire
from tests.qmgrd.test_daemon import Running, running

TCP = {"tcp": ["127.0.0.1:0"]}


def addresses(here: Running) -> tuple[str, str]:
    """Returns the addresses of the TCP socket and of the unix socket."""
    tcp, unix = here.daemon.addresses
    return tcp, unix


async def at_the_end(wire: Wire) -> None:
    """Waits until the daemon closes *wire*."""
    try:
        while await wire.reader.read(1 << 16):
            pass
    except ConnectionError:
        pass
    await wire.close()


async def greeting(here: Running, count: int) -> None:
    """Waits until *count* handshakes are unfinished."""
    limits = here.daemon._admission
    while len(limits._strangers) + len(limits._expected) != count:
        await asyncio.sleep(0)


async def test_handshake_that_is_not_done_in_time_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single bytes do not extend the time limit. The limit is not liveness_ms."""
    monkeypatch.setattr(daemons, "LOOK_S", 0.01)
    with capture_logs() as logs:
        async with running(tmp_path, listen={"handshake_ms": 50}) as here:
            mute, slow = [await Wire.dial(here.address) for _ in range(2)]
            slow.writer.write(b"\0")
            await at_the_end(mute)
            await at_the_end(slow)
    told = [log["why"] for log in logs if log["event"] == "connection closed"]
    assert told == ["the handshake took longer than 50 ms"] * 2


async def test_oldest_greeting_of_an_address_gives_way(tmp_path: Path) -> None:
    limits = TCP | {"greetings_per_address_max": 3}
    async with running(tmp_path, listen=limits) as here:
        tcp, _ = addresses(here)
        mutes = []
        for count in (1, 2, 3):
            mutes.append(await Wire.dial(tcp))
            await greeting(here, count)
        good = await Wire.connect(tcp)
        await at_the_end(mutes[0])
        assert (await good.ask(m.Status))["connections"] == 1
        mutes[2].send(m.Hello(m.MAGIC, 1, 1, "client", "late"))
        await mutes[2].next(m.Welcome)
        for wire in (good, *mutes[1:]):
            await wire.close()


async def test_mute_connections_of_all_addresses_are_bounded(tmp_path: Path) -> None:
    limits = TCP | {"greetings_max": 4, "greetings_per_address_max": 100}
    async with running(tmp_path, listen=limits) as here:
        tcp, unix = addresses(here)
        mutes = [await Wire.dial(tcp) for _ in range(20)]
        for wire in mutes[:16]:
            await at_the_end(wire)
        await greeting(here, 4)
        mute = await Wire.dial(unix)  # The unix socket has a separate limit of handshakes.
        await greeting(here, 5)
        for wire in (mute, *mutes[16:]):
            await wire.close()


async def test_strangers_do_not_replace_greetings_of_a_known_network(tmp_path: Path) -> None:
    limits = TCP | {"greetings_max": 2}
    async with running(tmp_path, listen=limits) as here:
        tcp, _ = addresses(here)
        await (await Wire.connect(tcp)).close()
        known = await Wire.dial(tcp)
        await greeting(here, 1)
        strangers = []
        for count in (2, 3, 3, 3):
            strangers.append(await Wire.dial(tcp, source="127.0.0.2"))
            await greeting(here, count)
        await at_the_end(strangers[0])
        await at_the_end(strangers[1])
        known.send(m.Hello(m.MAGIC, 1, 1, "client", "known"))
        await known.next(m.Welcome)
        for wire in (known, *strangers[2:]):
            await wire.close()


async def test_only_the_networks_of_the_last_logins_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "KNOWN_MAX", 2)
    async with running(tmp_path, listen=TCP) as here:
        for host in (1, 2, 1, 3):
            source = f"127.0.0.{host}"
            await (await Wire.connect(addresses(here)[0], source=source)).close()
        assert list(here.daemon._admission._known) == ["127.0.0.1", "127.0.0.3"]


async def test_mute_connections_take_no_places(tmp_path: Path) -> None:
    async with running(tmp_path, listen=TCP | {"connections_max": 2}) as here:
        tcp, _ = addresses(here)
        mutes = [await Wire.dial(tcp) for _ in range(20)]
        wires = [await Wire.connect(tcp) for _ in range(2)]
        assert (await wires[0].ask(m.Status))["connections"] == 2
        for wire in (*mutes, *wires):
            await wire.close()


async def test_connections_are_limited_and_the_next_is_reported(tmp_path: Path) -> None:
    async with running(tmp_path, listen=TCP | {"connections_max": 2}) as here:
        tcp, _ = addresses(here)
        wires = [await Wire.connect(tcp) for _ in range(2)]
        late = await Wire.dial(tcp)
        late.send(m.Hello(m.MAGIC, 1, 1, "client", "late"))
        goaway = await late.next(m.Goaway)
        assert goaway.code == ErrorCode.CONNECTIONS_EXHAUSTED
        assert "2 are open (listen.connections_max); the unix socket" in goaway.text
        await late.close()
        await wires[0].close()
        while here.daemon._admission.open_count > 1:
            await asyncio.sleep(0)
        wires[0] = await Wire.connect(tcp)
        for wire in wires:
            await wire.ask(m.Status)
            await wire.close()


async def test_unix_socket_has_places_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, listen=TCP | {"connections_max": 2}) as here:
        tcp, unix = addresses(here)
        wires = [await Wire.connect(tcp) for _ in range(2)]
        wires += [await Wire.connect(unix) for _ in range(UNIX_PLACES)]
        await wires[-1].ask(m.Status)
        late = await Wire.dial(unix)
        late.send(m.Hello(m.MAGIC, 1, 1, "client", "late"))
        assert (await late.next(m.Goaway)).code == ErrorCode.CONNECTIONS_EXHAUSTED
        for wire in (late, *wires):
            await wire.close()


async def test_one_address_cannot_take_all_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "LOOPBACK", "none")
    monkeypatch.setattr(
        "qmgrd.net.logins.is_of_this_machine", lambda origin: True
    )  # no login needed
    limits = TCP | {"connections_per_address_max": 2}
    async with running(tmp_path, listen=limits) as here:
        tcp, unix = addresses(here)
        wires = [await Wire.connect(tcp) for _ in range(2)]
        late = await Wire.dial(tcp)
        late.send(m.Hello(m.MAGIC, 1, 1, "client", "late"))
        goaway = await late.next(m.Goaway)
        assert goaway.text == (
            "2 connections from 127.0.0.1 are open, which is the limit "
            "(listen.connections_per_address_max)"
        )
        wires += [await Wire.connect(unix) for _ in range(3)]
        for wire in (late, *wires):
            await wire.close()


async def test_loopback_addresses_are_exempt(tmp_path: Path) -> None:
    limits = TCP | {"connections_per_address_max": 2}
    async with running(tmp_path, listen=limits) as here:
        for wire in [await Wire.connect(addresses(here)[0]) for _ in range(4)]:
            await wire.close()


async def test_bug_keeps_out_the_guilty_peer_alone(tmp_path: Path) -> None:
    async with running(tmp_path, listen=TCP) as here:
        tcp, unix = addresses(here)

        def bug(session: object, message: object) -> None:
            raise ZeroDivisionError("a bug")

        handlers: Any = here.daemon._turns.broker._handlers
        handlers[m.Status] = bug
        guilty, innocent = await Wire.connect(tcp, "app"), await Wire.connect(tcp, "app")
        assert innocent.protocol.welcome is not None
        token = innocent.protocol.welcome.session
        guilty.send(m.Status(1))
        assert (await guilty.next(m.Goaway)).code == ErrorCode.INTERNAL_ERROR
        again = await Wire.dial(tcp)
        again.send(m.Hello(m.MAGIC, 1, 1, "client", "app"))
        assert (await again.next(m.Goaway)).code == ErrorCode.PEER_KEPT_OUT
        resumed = await Wire.dial(tcp)
        resumed.send(m.Hello(m.MAGIC, 1, 1, "client", "app", session=token))
        await resumed.next(m.Welcome)
        real = await Wire.connect(unix, "app")
        await real.ask(m.Status)
        for wire in (guilty, innocent, again, resumed, real):
            await wire.close()


async def test_bad_connections_do_not_fill_the_log(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with running(tmp_path) as here:
            for _ in range(30):
                bad = await Wire.dial(here.address)
                bad.writer.write(b"GET / HTTP/1.1\r\n\r\n")
                await at_the_end(bad)
            while here.daemon._sessions:
                await asyncio.sleep(0)
            here.daemon._admission.tick(here.daemon.now_ms() + 60_000)
    told = [log for log in logs if log["event"] == "connection closed"]
    assert len(told) == 11
    assert (told[-1]["from"], told[-1]["code"], told[-1]["more"]) == ("unix", 100, 20)


@pytest.mark.parametrize(
    ("origin", "is_bounded"),
    [
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("unix", False),
        ("::1234", True),
        ("128.0.0.1", True),
        ("10.0.0.127", True),
    ],
)
def test_processes_of_this_machine_may_have_all_places(origin: str, is_bounded: bool) -> None:
    assert connection_limits.is_of_this_machine(origin) is not is_bounded
