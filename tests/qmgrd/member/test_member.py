"""Tests of whole members: takeovers, switch-overs and rebuilt stores."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from qmgr_client import ConnectFailed
from qmgr_client.aio import connect
from qmgr_protocol.errors import ErrorCode
from qmgrd.engine.appender import Appender
from qmgrd.engine.members import report
from qmgrd.engine.schema import open_place
from qmgrd.engine.server import connect as connect_server
from qmgrd.member import keeper as keepers
from qmgrd.member import member as members_
from qmgrd.member.keeper import Keeper
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.log import LogForeign
from tests.qmgrd.member.members import (
    Running,
    active_of,
    bodies,
    client_of,
    journal_of,
    put,
    running,
)


@pytest.mark.parametrize("is_orderly", [True, False], ids=["stopped", "cut off"])
async def test_standby_takes_over_with_all_messages(
    tmp_path: Path, journal_url: str, is_orderly: bool
) -> None:
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        await put(b"1", first)
        async with running(tmp_path / "2", journal_url, "nyc2") as second:
            await journal_of(first, is_seen=lambda journal: len(journal["members"]) == 2)
            await (first.stop() if is_orderly else first.cut_off())
            assert await active_of(second) == "nyc2"
            found = await journal_of(second, is_seen=lambda journal: True)
            assert found["why"] == ("nyc1 stopped" if is_orderly else "the session of nyc1 ended")
            assert found["epoch"] == 2
            await put(b"2", second)
            assert await bodies(second) == [b"1", b"2"]


async def test_standby_refuses_clients_and_names_the_active_member(
    tmp_path: Path, journal_url: str
) -> None:
    addresses = {"addresses": ["nyc1.example.org:7470"]}
    async with running(tmp_path / "1", journal_url, "nyc1", **addresses) as first:
        assert await active_of(first) == "nyc1"
        async with running(tmp_path / "2", journal_url, "nyc2") as second:
            while True:
                with pytest.raises(ConnectFailed) as refused:
                    async with connect(second.address, wait_ms=0):
                        pass
                if "is active at" in refused.value.why:
                    break
                await asyncio.sleep(0.05)
    assert refused.value.code == ErrorCode.NOT_ACTIVE
    assert "NYC is active at nyc1.example.org:7470 (member nyc1)" in refused.value.why


async def test_active_member_gives_way_to_the_one_that_an_operator_wants(
    tmp_path: Path, journal_url: str
) -> None:
    async with running(tmp_path / "1", journal_url, "nyc1") as first, client_of(first) as client:
        await put(b"1", first)
        async with (
            running(tmp_path / "2", journal_url, "nyc2") as second,
            running(tmp_path / "3", journal_url, "nyc3") as third,
        ):
            found = await journal_of(first, is_seen=lambda journal: len(journal["members"]) == 3)
            assert {row["role"] for row in found["members"]} == {"active", "standby"}
            answer = await client.admin.switch_over("nyc3", found["epoch"])
            assert (answer["member"], answer["epoch"]) == ("nyc3", 1)
            changed = await journal_of(first, second, third, is_seen=lambda x: x["epoch"] > 1)
            assert (changed["member"], changed["epoch"]) == ("nyc3", 2)
            assert changed["why"] == "an operator switched over"
            assert await bodies(first, second, third) == [b"1"]
            async with client_of(third) as other:  # The request may be sent again.
                again = await other.admin.switch_over("nyc3", found["epoch"])
            assert (again["member"], again["epoch"]) == ("nyc3", 2)


async def test_member_alone_becomes_active_again_after_it_gave_way(
    tmp_path: Path, journal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmgrd.member.standby.ORDERLY_WAIT_S", 0.2)
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        await put(b"1", first)
        with connect_server(journal_url, "test") as connection:
            place = open_place(connection, "NYC")
            report(connection, place, "lost", 1, "", is_active=False)  # It ended just now.
        async with client_of(first) as client:
            await client.admin.switch_over()
        found = await journal_of(first, is_seen=lambda journal: journal["epoch"] == 2)
        assert (found["member"], found["why"]) == ("nyc1", "lost did not start")
        assert await bodies(first) == [b"1"]


async def test_store_that_is_missing_or_unreadable_is_rebuilt(
    tmp_path: Path, journal_url: str
) -> None:
    store = tmp_path / "1" / "store"
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        await put(b"1", first)
    (store / "data.mdb").write_bytes(b"no store" * 4_096)
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        assert await bodies(first) == [b"1"]
    assert (tmp_path / "1" / "store.old" / "data.mdb").exists()
    (store / "data.mdb").unlink()
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        assert await bodies(first) == [b"1"]


async def test_member_that_was_away_for_too_long_begins_with_a_base(
    tmp_path: Path, journal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "PERIOD_S", 0.05)
    monkeypatch.setattr(members_, "Appender", partial(Appender, segment_bytes=1))
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        await put(b"1", first)
        async with running(tmp_path / "2", journal_url, "nyc2") as second:
            await journal_of(
                first, is_seen=lambda x: [row["record"] > 0 for row in x["members"]] == [True, True]
            )
            await second.stop()
        last = (await journal_of(first, is_seen=lambda journal: True))["record"]
    monkeypatch.setattr(members_, "Keeper", partial(Keeper, base_least_bytes=0))
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        await put_and_get(20, first)
        await journal_of(first, is_seen=lambda journal: journal["base_record"] > last + 2)
    with connect_server(journal_url, "test") as connection:
        place = open_place(connection, "NYC")
        connection.execute(f"drop table if exists {place.segment(1)}")
    async with running(tmp_path / "2", journal_url, "nyc2") as second:
        assert await bodies(second) == [b"1"]
    assert (tmp_path / "2" / "store.old").exists()


async def put_and_get(count: int, member: Running) -> None:
    """Makes the log longer than the store."""
    async with client_of(member) as client:
        await client.admin.queue_ensure("OTHER")
        for _ in range(count):
            await client.put("OTHER", bytes(100_000))
            message = await client.get("OTHER")
            assert message is not None
            await client.ack(message)


async def test_store_of_another_log_is_refused(tmp_path: Path, journal_url: str) -> None:
    for _ in range(2):  # The second start stores the records of the first one in LMDB.
        async with running(tmp_path / "1", journal_url, "nyc1") as first:
            await put(b"1", first)
    with connect_server(journal_url, "test") as connection:
        connection.execute("drop schema qmgrd cascade")
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        with pytest.raises(LogForeign, match=r"are not those of the journal at journal\.url"):
            await asyncio.wait_for(first.task, 30)


async def test_store_with_a_local_journal_is_refused(tmp_path: Path, journal_url: str) -> None:
    (tmp_path / "1").mkdir()
    store = JournalStore(tmp_path / "1", 1 << 28, 1 << 20)
    tx = store.begin()
    tx.put(b"key", b"value")
    store.commit()
    store.close()
    async with running(tmp_path / "1", journal_url, "nyc1") as first:
        with pytest.raises(LogForeign, match=r"are not those of the journal at journal\.url"):
            await asyncio.wait_for(first.task, 30)
