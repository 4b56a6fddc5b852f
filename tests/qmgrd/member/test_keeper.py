"""Tests of the keeper: the list of members, and bases. test_member.py tests its use."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from qmgrd.engine.members import MemberRow, members
from qmgrd.engine.schema import Place, create_segment, open_place
from qmgrd.engine.server import connect
from qmgrd.member import keeper as keepers
from qmgrd.member.keeper import Keeper
from qmgrd.store.checkpoint import content_of
from qmgrd.store.log import Record
from qmgrd.store.logged_store import LoggedStore

LONG_BYTES = 1 << 20  # more than the store uses, so that a base is due


@pytest.fixture(autouse=True)
def _short_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepers, "PERIOD_S", 0.02)


def place_of(url: str) -> Place:
    with connect(url, "test") as connection:
        place = open_place(connection, "NYC")
        connection.execute(create_segment(place, 1))
        insert = f"insert into {place.segment(1)} (record, epoch, content) values (1, 1, %s)"
        connection.execute(insert, (bytes(LONG_BYTES),))
        return place


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_true():
            await asyncio.sleep(0.01)


async def test_standby_reports_itself_and_makes_bases(journal_url: str, tmp_path: Path) -> None:
    place = place_of(journal_url)
    store = LoggedStore(tmp_path, 1 << 24, place.log_id)
    store.follow(Record(1, 1, content_of([])))
    keeper = Keeper(journal_url, place, store, "nyc2", "nyc2:1,nyc2:2", base_least_bytes=0)
    keeping = asyncio.create_task(keeper.run())
    await until(lambda: keeper.base is not None)
    facts = keeper.facts()
    assert (facts["base_record"], facts["base_bytes"] > 0, facts["log_bytes"] > 0) == (
        1,
        True,
        True,
    )
    (row,) = facts["members"]
    assert (row["member"], row["record"], row["behind"]) == ("nyc2", 1, 0)
    assert row["addresses"] == ["nyc2:1", "nyc2:2"]
    keeping.cancel()
    await asyncio.wait([keeping])
    keeper._thread.shutdown()
    store.close()
    with connect(journal_url, "test") as connection:
        assert members(connection, place) == []  # A member that stops leaves the list.


def test_roles_are_those_that_the_active_member_sees(tmp_path: Path) -> None:
    store = LoggedStore(tmp_path, 1 << 24, b"12345678")
    keeper = Keeper("", Place(1, b"12345678"), store, "nyc1", "")
    assert keeper.facts()["members"] == []
    keeper.members = [
        MemberRow("nyc1", True, 90, "", 0.5),
        MemberRow("nyc2", False, 70, "nyc2:1", 1.0),
        MemberRow("nyc3", True, 95, "nyc3:1", 11.0),  # It was active, and was lost.
    ]
    rows = keeper.facts()["members"]
    assert [row["role"] for row in rows] == ["active", "standby", "away"]
    assert [row["behind"] for row in rows] == [0, 20, 0]
    assert [row["seen_ms"] for row in rows] == [500, 1_000, 11_000]
    store.close()


async def test_trouble_is_shown_and_logged_once(tmp_path: Path) -> None:
    store = LoggedStore(tmp_path, 1 << 24, b"12345678")
    place = Place(1, b"12345678")
    with capture_logs() as logged:
        keeper = Keeper("postgresql://127.0.0.1:1/x", place, store, "nyc1", "")
        keeping = asyncio.create_task(keeper.run())
        await until(lambda: bool(keeper.trouble))
        await asyncio.sleep(0.1)
        keeping.cancel()
        await asyncio.wait([keeping])
    assert keeper.trouble.startswith("the server of the journal is away")
    assert len([line for line in logged if line["log_level"] == "warning"]) == 1
    store.close()
