"""Tests of a process that refuses each connection, over plain TCP, TLS and a unix socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_client import ConnectFailed
from qmgr_client.aio import connect
from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.net.listener import bind
from qmgrd.net.refusal import Refuser
from qmgrd.net.tls_files import TlsFiles
from tests.certificates import Certificates
from tests.qmgrd.net.wire import Wire, abort_all

WORDS = "NYC is active at nyc1:7470 (member nyc1)"


def goodbye() -> m.Goaway:
    return m.Goaway(ErrorCode.NOT_ACTIVE, WORDS, 500)


@asynccontextmanager
async def refusing(directory: Path, **sections: Any) -> AsyncIterator[list[str]]:
    """Refuses connections. Yields the addresses: TCP, TLS if it is configured, the socket."""
    listen = {"tcp": ["127.0.0.1:0"]} | sections.pop("listen", {})
    manager = {"name": "NYC", "data_dir": directory}
    config = Config.model_validate({"queue_manager": manager, "listen": listen, **sections})
    sockets = await bind(config)
    refusal = Refuser(config, TlsFiles(config.tls), goodbye)
    serving = asyncio.create_task(refusal.serve(sockets))
    await asyncio.sleep(0)
    try:
        yield sockets.names
    finally:
        abort_all()
        serving.cancel()
        await asyncio.wait([serving])
        sockets.close()


async def refused(address: str, **options: Any) -> ConnectFailed:
    with pytest.raises(ConnectFailed) as failure:
        async with connect(address, wait_ms=0, **options):
            pass
    return failure.value


async def test_clients_hear_the_words_over_tcp_tls_and_a_socket(tmp_path: Path) -> None:
    files = Certificates(tmp_path / "tls")
    listen = {"tls": ["127.0.0.1:0"]}
    async with refusing(tmp_path, listen=listen, tls=files.section()) as (tcp, tls, unix):
        for address in (tcp, unix):
            failure = await refused(address)
            assert (failure.code, WORDS in failure.why) == (ErrorCode.NOT_ACTIVE, True)
        failure = await refused(tls, tls=files.options())
        assert (failure.code, WORDS in failure.why) == (ErrorCode.NOT_ACTIVE, True)


async def test_user_need_not_log_in(tmp_path: Path) -> None:
    async with refusing(tmp_path) as (tcp, _):
        failure = await refused(tcp, user="bob", password="secret")
        assert failure.code == ErrorCode.NOT_ACTIVE


async def test_goodbye_follows_the_hello_and_requests_are_ignored(tmp_path: Path) -> None:
    async with refusing(tmp_path) as (tcp, _):
        wire = await Wire.dial(tcp)
        wire.send(m.Hello(m.MAGIC, 1, 1, "client", "app"))
        assert await wire.next(m.Goaway) == goodbye()
        with pytest.raises(EOFError):
            await wire.next(m.Ok)


async def test_silent_greetings_are_limited_in_time_and_number(tmp_path: Path) -> None:
    listen = {"handshake_ms": 100}
    async with refusing(tmp_path, listen=listen) as (tcp, _):
        wire = await Wire.dial(tcp)
        with pytest.raises(EOFError):
            await wire.next(m.Welcome)
    listen = {"greetings_max": 2, "greetings_per_address_max": 2}
    async with refusing(tmp_path, listen=listen) as (tcp, _):
        silent = [await Wire.dial(tcp) for _ in range(3)]
        with pytest.raises(EOFError):
            await silent[0].next(m.Welcome)  # The oldest one gives way.
        failure = await refused(tcp)
        assert failure.code == ErrorCode.NOT_ACTIVE


async def test_noise_closes_only_its_connection(tmp_path: Path) -> None:
    async with refusing(tmp_path) as (tcp, _):
        noisy = await Wire.dial(tcp)
        noisy.writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
        assert await asyncio.wait_for(noisy.reader.read(), 30) is not None
        assert (await refused(tcp)).code == ErrorCode.NOT_ACTIVE


async def test_refused_connection_is_no_warning_in_the_log(tmp_path: Path) -> None:
    with capture_logs() as logged:
        async with refusing(tmp_path) as (tcp, _):
            await refused(tcp)
    assert [line for line in logged if line["log_level"] == "warning"] == []
