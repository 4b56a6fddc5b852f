"""Connections over TLS to a whole daemon: what both ends see, and what the daemon logs."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from qmgr_client import ConnectFailed, ConnectionEnded
from qmgr_client.aio import connect
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.states import Side
from qmgr_protocol.tls import TlsOptions
from qmgrd.net import other_protocol
from qmgrd.net.tls_channel import TlsChannel
from tests.certificates import Certificates
from tests.qmgrd.test_daemon import Running, running
from tests.tls_forger import HALF_KEY_UPDATE, HANDSHAKE, Forger

LISTEN = {"tcp": ["127.0.0.1:0"], "tls": ["127.0.0.1:0"], "unix": "off"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    found = Certificates(tmp_path_factory.mktemp("tls"))
    found.issue("client", "client.example.org")
    found.issue("old", "localhost", "127.0.0.1", days=100, ago_days=200)
    return found


@asynccontextmanager
async def secured(
    directory: Path, files: Certificates, file: str = "server", **others: Any
) -> AsyncIterator[tuple[Running, str, str]]:
    """Runs a daemon. Yields it, its plain address, and its address with TLS."""
    tls = files.section(file, **others)
    async with running(directory, listen=LISTEN, tls=tls) as here:
        plain, secure = here.daemon.addresses
        yield here, plain, secure


async def test_messages_of_all_sizes_pass(tmp_path: Path, files: Certificates) -> None:
    bodies = [b"x" * size for size in (0, 1, 16_000, 17_000, 1_000_000, 4_000_000)]
    async with (
        secured(tmp_path, files) as (_, _, address),
        connect(address, tls=files.options()) as client,
    ):
        await client.admin.queue_create("Q")
        for body in bodies:
            await client.put("Q", body)
        for body in bodies:
            message = await client.get("Q")
            assert message is not None
            assert message.body == body
            await client.ack(message)


async def test_addresses_with_tls_are_named_so(tmp_path: Path, files: Certificates) -> None:
    async with secured(tmp_path, files) as (_, plain, address):
        assert json.loads((tmp_path / "listening.json").read_text()) == [plain, address]
        assert address.startswith("tls:127.0.0.1:")
        async with connect(address, tls=files.options()) as client:
            (shown,) = (await client.admin.status())["certificates"]
            assert shown["fingerprint"] == files.fingerprint()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ca_file": ""}, "does not know the CA"),
        ({"server_name": "example.org"}, "has another name"),
        ({"fingerprint": "ab" * 32}, "is expected"),
        ({"ca_file": "/none"}, "cannot read the CAs in /none"),
    ],
)
async def test_client_refuses_a_queue_manager_that_it_does_not_trust(
    tmp_path: Path, files: Certificates, options: dict[str, Any], why: str
) -> None:
    async with secured(tmp_path, files) as (here, _, address):
        with pytest.raises(ConnectFailed, match=why):
            await connect(address, tls=files.options(**options)).open()
        while here.daemon._sessions:
            await asyncio.sleep(0)


async def test_expired_certificate_is_named_at_both_ends(
    tmp_path: Path, files: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    async with secured(tmp_path, files, "old") as (here, _, address):
        with pytest.raises(ConnectFailed, match="the certificate of the other end has expired"):
            await connect(address, tls=files.options()).open()
        while here.daemon._sessions:
            await asyncio.sleep(0)
    assert "it may not trust the certificate of this end" in capsys.readouterr().out


async def test_plain_client_learns_that_the_port_requires_tls(
    tmp_path: Path, files: Certificates
) -> None:
    async with secured(tmp_path, files) as (_, _, address):
        with pytest.raises(ConnectionEnded, match="this port requires TLS: dial it as tls:"):
            await connect(address.removeprefix("tls:")).open()


async def test_client_with_tls_learns_that_the_port_has_none(
    tmp_path: Path, files: Certificates
) -> None:
    async with secured(tmp_path, files) as (_, plain, _):
        with pytest.raises(ConnectFailed, match="does not use TLS at this port"):
            await connect(f"tls:{plain}", tls=files.options()).open()


@pytest.mark.parametrize("is_https", [False, True])
async def test_http_is_answered_in_http(
    tmp_path: Path, files: Certificates, is_https: bool
) -> None:
    context = ssl.create_default_context(cafile=files.ca) if is_https else None
    async with secured(tmp_path, files) as (_, _, address):
        host, port = address.removeprefix("tls:").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readexactly(len(other_protocol.HTTP.answer))
        writer.close()


async def test_required_certificate_is_asked_for(tmp_path: Path, files: Certificates) -> None:
    required = {"client_ca": files.ca, "client_certificates": "require"}
    async with secured(tmp_path, files, **required) as (_, _, address):
        async with connect(address, tls=files.options("client")) as client:
            await client.admin.status()
        with pytest.raises(ConnectFailed, match="requires a certificate"):
            await connect(address, tls=files.options()).open()
        with pytest.raises(ConnectFailed, match="the certificate of this end has expired"):
            await connect(address, tls=files.options("old")).open()


async def test_certificate_of_an_unknown_ca_is_refused(tmp_path: Path, files: Certificates) -> None:
    stranger = Certificates(tmp_path / "stranger")
    options = stranger.options("server", ca_file=files.ca)
    async with secured(tmp_path / "qm", files, client_ca=files.ca) as (_, _, address):
        with pytest.raises(ConnectFailed, match="does not trust the certificate of this end"):
            await connect(address, tls=options).open()


async def test_goodbye_of_a_stopped_daemon_arrives(tmp_path: Path, files: Certificates) -> None:
    context = files.options().context()
    async with secured(tmp_path, files) as (here, _, address):
        host, port = address.removeprefix("tls:").split(":")
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=context, server_hostname="localhost"
        )
        wire = Connection(Side.DIALLER)
        writer.write(wire.send(m.Hello(m.MAGIC, 1, 1, "client", "app")))
        received = wire.receive(await reader.read(1 << 16), 0)
        assert [type(message) for message, _ in received] == [m.Welcome]
        here.daemon.stop()
        (goaway, _), *_ = wire.receive(await reader.read(1 << 16), 0)
        assert isinstance(goaway, m.Goaway)
        assert goaway.code == ErrorCode.SHUTTING_DOWN
        assert await reader.read() == b""
        writer.close()
        await here.task


async def test_handshake_has_a_time_limit(tmp_path: Path, files: Certificates) -> None:
    listen = LISTEN | {"handshake_ms": 10}
    async with running(tmp_path, listen=listen, tls=files.section()) as here:
        host, port = here.daemon.addresses[1].removeprefix("tls:").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x16\x03\x01")
        with suppress(ConnectionError):  # The daemon may also reset the connection.
            assert await reader.read() == b""
        writer.close()


async def test_stranger_that_blocks_sending_does_not_stop_the_daemon(
    tmp_path: Path, files: Certificates
) -> None:
    """After a part of a change of keys, the goodbye of the time limit cannot be sent."""
    log, listen = tmp_path / "keys", LISTEN | {"handshake_ms": 10}
    context = files.options().context()
    context.keylog_filename = str(log)
    async with running(tmp_path / "qm", listen=listen, tls=files.section()) as here:
        host, port = here.daemon.addresses[1].removeprefix("tls:").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        dialler = TlsChannel(context, is_server=False, name="localhost")
        while not dialler.is_open:
            dialler.shake()
            writer.write(dialler.outgoing())
            if not dialler.is_open:
                dialler.feed(await reader.read(1 << 16))
        writer.write(Forger(log, dialler.tls).record(HANDSHAKE, HALF_KEY_UPDATE))
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        writer.close()
        while here.daemon._sessions and not here.task.done():
            await asyncio.sleep(0)
        assert not here.task.done()


async def test_closed_connection_does_not_continue_its_handshake(
    tmp_path: Path, files: Certificates
) -> None:
    async with secured(tmp_path, files) as (here, _, address):
        host, port = address.removeprefix("tls:").split(":")
        for _ in range(5):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(bytes.fromhex("1603010005010000010000"))
            writer.transport.abort()
        async with connect(address, tls=files.options()) as client:
            await client.admin.status()
        while len(here.daemon._sessions):
            await asyncio.sleep(0)


async def test_link_over_tls_carries_messages_and_names_what_it_refuses(
    tmp_path: Path, files: Certificates
) -> None:
    manager = {"name": "EWR", "data_dir": tmp_path / "ewr"}
    links = {"redial_min_ms": 10, "redial_max_ms": 20}
    async with (
        secured(tmp_path / "nyc", files) as (_, nyc_plain, nyc),
        running(
            tmp_path / "ewr",
            queue_manager=manager,
            listen=LISTEN,
            tls=files.section("client"),
            link=links,
        ) as ewr,
        connect(nyc_plain) as there,
        connect(ewr.daemon.addresses[0]) as here,
    ):
        await there.admin.link_allow("EWR")
        await there.admin.queue_create("Q")
        await here.admin.link_create("QM1", [nyc])
        await here.admin.queue_create("Q@QM1")
        await here.put("Q@QM1", b"apples")
        message = await there.get("Q", wait_ms=20_000)
        assert message is not None
        assert message.body == b"apples"
        await there.ack(message)
        await here.admin.link_alter("QM1", [f"tls:{nyc_plain}"])
        await here.admin.link_stop("QM1")
        await here.admin.link_start("QM1")
        while "does not use TLS" not in ((await here.admin.link_show("QM1"))["error"] or ""):
            await asyncio.sleep(0.01)


async def test_link_logs_in_with_its_certificate(tmp_path: Path, files: Certificates) -> None:
    files.issue("ewr", "ewr.example.org")
    rules = {"certificates": [{"match": "dns:ewr.example.org", "user": "EWR"}]}
    links = {"logins": [{"manager": "QM1", "use_certificate": True}], "redial_min_ms": 10}
    nyc_tls = files.section(client_ca=files.ca)
    async with (
        running(tmp_path / "nyc", listen=LISTEN | {"unix": ""}, tls=nyc_tls, auth=rules) as nyc,
        connect(nyc.daemon.addresses[2]) as there,
    ):
        await there.admin.user_create("root", "secret", roles=["administrator"])
        await there.admin.user_create("EWR", roles=["peer"], queue_manager="EWR")
        await there.admin.link_allow("EWR")
        await there.admin.queue_create("Q")
        async with (
            running(
                tmp_path / "ewr",
                queue_manager={"name": "EWR", "data_dir": tmp_path / "ewr"},
                listen=LISTEN,
                tls=files.section("ewr"),
                link=links,
            ) as ewr,
            connect(ewr.daemon.addresses[0]) as here,
        ):
            await here.admin.link_create("QM1", [nyc.daemon.addresses[1]])
            await here.admin.queue_create("Q@QM1")
            await here.put("Q@QM1", b"apples")
            message = await there.get("Q", wait_ms=20_000)
            assert message is not None
            assert message.body == b"apples"
            await there.ack(message)


def test_options_for_an_address_without_tls_are_a_mistake(files: Certificates) -> None:
    with pytest.raises(ValueError, match=r"does not use TLS: write tls:127\.0\.0\.1:7470"):
        connect("127.0.0.1:7470", tls=TlsOptions())


async def test_closed_connection_waits_no_longer_for_its_handshake(
    tmp_path: Path, files: Certificates
) -> None:
    async with secured(tmp_path, files) as (here, _, address):
        door = here.daemon._door
        host, _, port = address.removeprefix("tls:").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(20):
            while not here.daemon._sessions:
                await asyncio.sleep(0)
            door._is_turn_due, door._patient_until_s = lambda: True, float("inf")
            writer.write(b"\x16")
            while not door._strangers:
                await asyncio.sleep(0)
            (session,) = here.daemon._sessions.values()
            session.cut_off(m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, "too many"))
            while here.daemon._sessions:
                await asyncio.sleep(0)
        assert not door._strangers
        writer.transport.abort()
