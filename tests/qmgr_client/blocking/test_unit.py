"""Tests of units of work without asyncio, with a keeper on a real socket."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, PutResult, RequestError, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.keeper import Keeper
from tests.qmgr_client.listener import kept, listening


class Kept:
    """A keeper in a separate thread."""

    def __init__(self, directory: Path) -> None:
        self.keeper = Keeper()
        self.address = ""
        self._directory = directory
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with listening(self._directory) as listener, kept(listener, self.keeper):
            self.address = listener.address
            self._started.set()
            await self._stopping.wait()

    def __enter__(self) -> "Kept":
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()


@pytest.fixture
def working(tmp_path: Path) -> Iterator[tuple[Client, Keeper]]:
    with Kept(tmp_path) as far, connect(far.address) as client:
        far.keeper.ready["IN"] = [b"1", b"2", b"3"]
        yield client, far.keeper


def test_leaving_the_block_commits(working: tuple[Client, Keeper]) -> None:
    """G20: The end of the block commits the puts and gets of the unit."""
    client, keeper = working
    leased = client.get("IN")
    assert leased is not None
    with client.unit_of_work() as unit:
        message = unit.get("IN", wait_ms=1_000)
        assert message is not None
        assert [found.body for found in unit.get_many("IN", 5)] == [b"3"]
        unit.ack(leased)
        assert isinstance(unit.put("OUT", message.body, expiry_ms=60_000), PutResult)
        assert len(unit.put_many("OUT", iter([b"a", b"b"]))) == 2
        assert not unit.has_ended
        assert "OUT" not in keeper.ready
    assert unit.has_ended
    assert keeper.ready == {"IN": [], "OUT": [b"2", b"a", b"b"]}
    assert keeper.commits[0].gets == 3


def test_exception_backs_out_and_goes_on(working: tuple[Client, Keeper]) -> None:
    client, keeper = working

    def work() -> None:
        with client.unit_of_work() as unit:
            unit.get("IN")
            unit.put("OUT", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert keeper.ready == {"IN": [b"1", b"2", b"3"]}


def test_refusal_of_one_of_many_backs_the_block_out(working: tuple[Client, Keeper]) -> None:
    client, keeper = working
    keeper.refuse[b"bad"] = ErrorCode.QUEUE_FULL

    def work() -> None:
        with client.unit_of_work() as unit:
            unit.get("IN")
            unit.put_many("OUT", [b"a", b"bad"])

    with pytest.raises(RequestError, match="QUEUE_FULL"):
        work()
    assert keeper.ready == {"IN": [b"1", b"2", b"3"]}


def test_caller_may_end_it(working: tuple[Client, Keeper]) -> None:
    client, keeper = working
    with client.unit_of_work() as unit:
        unit.put("OUT", b"x")
        unit.commit()
    with client.unit_of_work() as unit:
        unit.ack_many(client.get_many("IN", 3))
        unit.backout()
    assert keeper.ready == {"IN": [b"1", b"2", b"3"], "OUT": [b"x"]}
    with pytest.raises(RequestError) as caught:
        unit.put("OUT", b"y")
    assert caught.value.code == ErrorCode.UNIT_UNKNOWN


def test_unit_that_is_not_begun_raises(working: tuple[Client, Keeper]) -> None:
    with pytest.raises(RequestError, match=r"UNIT_UNKNOWN: .* not begun: use it in a with"):
        working[0].unit_of_work().put("OUT", b"x")


def test_client_that_is_closed_inside_lets_the_error_go_on(working: tuple[Client, Keeper]) -> None:
    client, keeper = working

    def work() -> None:
        with client.unit_of_work() as unit:
            unit.put("OUT", b"x")
            client.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert "OUT" not in keeper.ready


def test_ways_a_lease_ends(working: tuple[Client, Keeper]) -> None:
    client, keeper = working
    first, second, third = client.get_many("IN", 3)
    client.renew(first, 60_000)
    client.release(second, 500, failed=False, reason="BUSY", text="off")
    client.release(first, retry_at=datetime.now(UTC) + timedelta(hours=1))
    client.reject(third, "BAD", "no carrier")
    assert [settle.action for settle in keeper.settles] == [m.RENEW, m.RETURN, m.RELEASE, m.REJECT]
    assert keeper.settles[1][5:] == (500, 0, "BUSY", "off")
    assert keeper.settles[2].delay_ms > 3_500_000
