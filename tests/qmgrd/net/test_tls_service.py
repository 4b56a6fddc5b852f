"""Renewal of certificates under load, and warnings before they end."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from qmgr_client.aio import connect
from qmgr_config.tls import TlsConfig
from qmgrd.core.broker import Broker
from qmgrd.net import tls_service
from qmgrd.net.door import Door
from qmgrd.net.session import SessionHost
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.tls_service import TlsService
from tests.certificates import Certificates
from tests.qmgrd.net.test_tls_session import secured


class Told:
    """A broker that keeps the events."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.context = self

    def event(self, event: str, **facts: Any) -> None:
        self.events.append(event)

    def in_turn(self, call: Callable[[Broker], None]) -> None:
        call(cast(Broker, self))


def test_warning_comes_once_a_day_and_ends_with_the_renewal(tmp_path: Path) -> None:
    files, told = Certificates(tmp_path), Told()
    service = TlsService(
        TlsFiles(TlsConfig(**files.section())),
        cast(SessionHost, None),
        Door(lambda: False),
        told.in_turn,
    )
    with capture_logs() as log:
        for days in (0, 69):
            service.look(files.now + timedelta(days=days))
        assert told.events == []
        for hours in (0, 1, 23, 25):
            service.look(files.now + timedelta(days=80, hours=hours))
        assert told.events == ["certificate ends soon"] * 2
        service.look(files.now + timedelta(days=101))
        assert told.events.pop() == "certificate ended"
        files.issue("server", "localhost", days=500)
        service.look(files.now + timedelta(days=102))
    assert len(told.events) == 2
    assert [entry["event"] for entry in log if entry["log_level"] == "warning"] == [
        *told.events,
        "certificate ended",
    ]


async def test_warning_is_an_event(tmp_path: Path) -> None:
    files = Certificates(tmp_path / "tls")
    files.issue("short", "localhost", days=10)
    async with secured(tmp_path / "qm", files, "short") as (_, plain, _), connect(plain) as client:
        message = await client.get("SYSTEM.EVENTS", wait_ms=20_000)
        assert message is not None
        assert message.headers["event"] == "certificate ends soon"
        assert message.headers["path"] == files.crt("short")


async def test_no_connection_is_lost_while_certificates_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is open, and others are opened, while the files are replaced 100 times."""
    monkeypatch.setattr(tls_service, "REFRESH_S", 0.001)
    files = Certificates(tmp_path / "tls")
    options, seen = files.options(), set()
    async with (
        secured(tmp_path / "qm", files) as (here, _, address),
        connect(address, tls=options, give_up_ms=0) as steady,
    ):
        await steady.admin.queue_create("Q")
        for number in range(100):
            files.issue("server", "localhost", "127.0.0.1")
            wanted = files.fingerprint()
            while here.daemon._tls.facts()[0]["fingerprint"] != wanted:
                await asyncio.gather(steady.put("Q", b"x"), asyncio.sleep(0.001))
            async with connect(address, tls=options, give_up_ms=0) as other:
                await other.put("Q", str(number).encode())
            seen.add(wanted)
        await steady.put("Q", b"the connection is still the first one")
    assert len(seen) == 100
