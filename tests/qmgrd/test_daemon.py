"""The daemon on the event loop of the test process: sockets, clock, recovery, shutdown."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd import daemon as daemons
from qmgrd.core.jobs.due_work import DueWork
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.core.turn import TurnFailed
from qmgrd.daemon import Daemon
from qmgrd.net import farewell
from qmgrd.net.listener import ListenFailed
from qmgrd.process.recovery import RECOVERIES_MAX
from qmgrd.store.lmdb_store import StoreReplaced
from tests.disk_stores import disk_store
from tests.qmgrd.core.harness import record
from tests.qmgrd.net.wire import Wire, abort_all

ID = b"P" * 16


class Running:
    """A running daemon that serves clients."""

    def __init__(self, config: Config, map_bytes: int) -> None:
        self.store = disk_store(config.queue_manager.data_dir, map_bytes)
        self.daemon = Daemon(config, self.store)
        self.task = asyncio.create_task(self.daemon.run())

    @property
    def address(self) -> str:
        return self.daemon.addresses[-1]

    async def started(self) -> None:
        while not self.daemon.addresses or self.daemon._tasks is None:
            if self.task.done():
                await self.task
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self.daemon.stop()
        await self.task


def config_of(data_dir: Path, **sections: Any) -> Config:
    manager = {"name": "QM1", "data_dir": data_dir} | sections.pop("queue_manager", {})
    listening = {"tcp": []} | sections.pop("listen", {})
    return Config.model_validate({"queue_manager": manager, "listen": listening, **sections})


@asynccontextmanager
async def running(
    data_dir: Path, map_bytes: int = 1 << 28, **sections: Any
) -> AsyncIterator[Running]:
    running = Running(config_of(data_dir, **sections), map_bytes)
    try:
        async with asyncio.timeout(30):
            await running.started()
            yield running
            if not running.task.done():
                await running.stop()
    except BaseException:
        abort_all()
        running.daemon.stop()  # A cancelled daemon does not close its sockets.
        await asyncio.wait([running.task], timeout=5)
        raise
    finally:
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        running.store.close()


async def test_failed_test_closes_its_wires_before_the_daemon(tmp_path: Path) -> None:
    """Otherwise the event loop of uvloop never closes, and the failure is not reported."""
    wires: list[Wire] = []

    async def fail() -> None:
        async with running(tmp_path) as here:
            wires.append(await Wire.connect(here.address))
            raise AssertionError("the test failed")

    with pytest.raises(AssertionError, match="the test failed"):
        await fail()
    assert wires[0].writer.transport.is_closing()


# -- serving


async def test_daemon_serves_on_every_address_and_reports_them(tmp_path: Path) -> None:
    async with running(tmp_path, listen={"tcp": ["127.0.0.1:0"]}) as here:
        assert json.loads((tmp_path / "listening.json").read_text()) == here.daemon.addresses
        assert len(here.daemon.addresses) == 2
        for address in here.daemon.addresses:
            wire = await Wire.connect(address)
            assert (await wire.ask(m.Status))["listening"] == here.daemon.addresses
            await wire.close()


async def test_message_is_put_and_received(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        await wire.ask(m.QueueCreate, "Q")
        assert (await wire.put(ID, "Q", record(b"hello"))).commit_id == 1
        wire.send(m.Get(50, "Q"))
        deliver = await wire.next(m.Deliver)
        wire.send(m.Settle(1, m.ACK, deliver.queue_id, deliver.items[0][:17]))
        assert await wire.next(m.Settled) == m.Settled(1, [])
        await wire.close()


async def test_waits_and_leases_end_by_themselves(tmp_path: Path) -> None:
    """No client sends anything. The timer alone wakes the event loop."""
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        await wire.ask(m.QueueCreate, "Q")
        wire.send(m.Get(50, "Q", 1, 20))
        assert await wire.next(m.Ok) == m.Ok(50, None)
        await wire.put(ID, "Q", record(b"x"))
        wire.send(m.Consume(60, "Q", 10, 1000, 100))
        first, second = await wire.next(m.Deliver), await wire.next(m.Deliver)
        assert m.DELIVERY.unpack_from(first.items[0])[3] == 0
        assert m.DELIVERY.unpack_from(second.items[0])[3] == 1
        await wire.close()


async def test_connections_are_listed_with_their_addresses(tmp_path: Path) -> None:
    async with running(tmp_path, listen={"tcp": ["127.0.0.1:0"]}) as here:
        tcp, unix = [await Wire.connect(address) for address in here.daemon.addresses]
        found = (await unix.ask(m.ConnectionList))["connections"]
        assert [row["address"].partition(":")[0] for row in found] == ["127.0.0.1", "unix"]
        assert [(row["waiting"], row["unsent_bytes"]) for row in found] == [(0, 0)] * 2
        await unix.ask(m.ConnectionClose, found[0]["connection"])
        assert (await tcp.next(m.Goaway)).code == ErrorCode.CANCELLED
        assert len((await unix.ask(m.ConnectionList))["connections"]) == 1
        await tcp.close()
        await unix.close()


async def test_status_has_what_only_the_shell_knows(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        status = await wire.ask(m.Status)
        assert status["connections"] == 1
        assert status["disk_free_bytes"] > 0
        assert status["store_used_bytes"] < status["store_map_bytes"] == 1 << 28
        assert {"software", "pid", "uptime_ms", "cpu_ms"} <= set(status)
        await wire.close()


async def test_status_reports_the_time_of_turns(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        before = await wire.ask(m.Status)
        await wire.ask(m.QueueCreate, "Q")
        after = await wire.ask(m.Status)
        turns = [sum(count for _, count in status["turn_times_us"]) for status in (before, after)]
        assert turns[1] >= turns[0] + 2  # one turn for the first status, one for the queue
        longest_class_us = max(below_us for below_us, _ in after["turn_times_us"])
        assert 0 < after["turn_longest_us"] < longest_class_us
        await wire.close()


async def test_silent_client_is_pinged_and_cut_off(tmp_path: Path) -> None:
    limits = {"heartbeat_ms": 20, "liveness_ms": 400}
    async with running(tmp_path, limits=limits) as here:
        wire = await Wire.connect(here.address)
        await wire.next(m.Ping)
        while await wire.reader.read(1 << 16):
            pass
        await wire.close()


async def test_rubbish_closes_its_own_connection_only(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        good = await Wire.connect(here.address)
        for rubbish in (b"BREW / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\0\0\0\1\xc1"):
            bad = await Wire.dial(here.address)
            bad.writer.write(rubbish)
            assert (await bad.next(m.Goaway)).code < ErrorCode.OPERATION_UNKNOWN
            await bad.close()
        await good.ask(m.Status)
        await good.close()


# -- the end


async def test_stop_says_goodbye_after_the_last_answers(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        await wire.ask(m.QueueCreate, "Q")
        idle = await Wire.connect(here.address, "idle")
        await wire.put(ID, "Q", record(b"1"))
        wire.send(m.Get(50, "Q"))
        await wire.next(m.Deliver)
        here.daemon.stop()
        for each in (wire, idle):
            goaway = await each.next(m.Goaway)
            assert (goaway.code, goaway.retry_after_ms) == (ErrorCode.SHUTTING_DOWN, 1_000)
            await each.close()
        await here.task
    async with running(tmp_path) as here:
        assert not here.daemon._turns.boot.unclean
        wire = await Wire.connect(here.address)
        wire.send(m.Get(50, "Q"))
        (item,) = (await wire.next(m.Deliver)).items
        assert m.DELIVERY.unpack_from(item)[3:6] == (1, 0, m.STATE_REDELIVERED)
        await wire.close()


async def test_stop_does_not_wait_for_a_client_that_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farewell, "DRAIN_MAX_MS", 50)
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        await wire.ask(m.QueueCreate, "Q")
        for i in range(8):
            await wire.put(ID[:-1] + bytes([i]), "Q", record(bytes(1 << 20)))
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(m.Consume(60, "Q", 100, 1 << 30))
        (session,) = here.daemon._sessions.values()
        while not session.unwritten_bytes():
            await asyncio.sleep(0)
        await here.stop()
        # Otherwise, uvloop can wait for the connection forever when it closes.
        assert session._transport is None
        assert not here.daemon._sessions
        await wire.close()


async def test_stop_does_not_wait_for_a_dial(tmp_path: Path) -> None:
    """Otherwise a peer that does not answer would delay the stop for ten seconds."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            async with running(tmp_path) as here:
                wire = await Wire.connect(here.address)
                link = {"addresses": [f"127.0.0.1:{port}"]}
                assert (await wire.ask(m.LinkCreate, "FAR", link))["state"] == "dialling"
                await wire.close()
                while not here.daemon._effects.tasks:
                    await asyncio.sleep(0)
                async with asyncio.timeout(5):
                    await here.stop()


async def test_failed_listening_leaves_the_store_clean(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        store = disk_store(tmp_path, 1 << 28)
        config = config_of(tmp_path, listen={"tcp": [f"127.0.0.1:{port}"]})
        with pytest.raises(ListenFailed):
            await Daemon(config, store).run()
        assert not Daemon(config, store)._turns.boot.unclean
        store.close()


async def test_address_file_may_fail(tmp_path: Path) -> None:
    """Otherwise a full disk would prevent the start of the daemon that frees its space."""
    (tmp_path / "listening.json.new").mkdir()
    with capture_logs() as logs:
        async with running(tmp_path) as here:
            wire = await Wire.connect(here.address)
            await wire.ask(m.Status)
            await wire.close()
    assert [log["why"] for log in logs if log["event"] == "cannot write"] == ["Is a directory"]


# -- bugs and broken stores


def bug() -> None:
    raise ZeroDivisionError("a bug")


def break_status(here: Running, bug: Callable[[], object] = bug) -> None:
    def broken(session: object, message: object) -> None:
        bug()

    handlers: Any = here.daemon._turns.broker._handlers
    handlers[m.Status] = broken


async def test_bug_is_undone_and_others_work_on(tmp_path: Path) -> None:
    """The daemon undoes the turn, refuses the guilty peer, and serves the others."""
    with capture_logs() as logs:
        async with running(tmp_path) as here:
            good, guilty = [await Wire.connect(here.address, n) for n in ("good", "guilty")]
            await good.ask(m.QueueCreate, "Q")
            await good.put(ID, "Q", record(b"1"))
            break_status(here)
            stream, commit_id = (await good.ask(m.ProducerOpen, ID))[:2]
            good.send(m.Put(stream, commit_id + 1, 0, "Q", [record(b"2")]))
            guilty.send(m.Status(1))
            for wire in (good, guilty):
                goaway = await wire.next(m.Goaway)
                assert (goaway.code, goaway.retry_after_ms) == (ErrorCode.INTERNAL_ERROR, 100)
                await wire.close()
            kept_out = await Wire.dial(here.address)
            kept_out.send(m.Hello(m.MAGIC, 1, 1, "client", "guilty"))
            goaway = await kept_out.next(m.Goaway)
            assert goaway.code == ErrorCode.PEER_KEPT_OUT
            assert 0 < goaway.retry_after_ms <= 60_000
            await kept_out.close()
            good = await Wire.connect(here.address, "good")
            stream, commit_id = (await good.ask(m.ProducerOpen, ID, True))[:2]
            good.send(m.Put(stream, 2, 0, "Q", [record(b"2")]))
            assert (await good.next(m.Committed)).commit_id == 2
            assert await good.bodies("Q") == [b"1", b"2"]
            assert (await good.ask(m.Status))["boot"] == 2
            await good.close()
    (logged,) = [log for log in logs if log["log_level"] == "error"]
    assert "a turn failed and was rolled back" in logged["event"]
    assert "ZeroDivisionError while serving connection 2" in str(logged["exc_info"])


@pytest.mark.parametrize("error", [MemoryError, OverflowError])
async def test_answer_that_cannot_be_written_costs_the_connection_that_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    with capture_logs() as logs:
        async with running(tmp_path) as here:
            good, greedy = [await Wire.connect(here.address, n) for n in ("good", "greedy")]
            await good.ask(m.Status)
            (session,) = (x for x in here.daemon._sessions.values() if x.peer.peer_name == "greedy")

            def fail(message: Any) -> bytes:
                raise error

            monkeypatch.setattr(session.peer, "encode", fail)
            greedy.send(m.Status(1))
            good.send(m.QueueCreate(7, "Q"))
            assert (await good.next(m.Ok)).request_id == 7
            with pytest.raises((EOFError, ConnectionError)):
                await greedy.next(m.Ok)
            again = await Wire.dial(here.address)
            again.send(m.Hello(m.MAGIC, 1, 1, "client", "greedy"))
            assert (await again.next(m.Goaway)).code == ErrorCode.PEER_KEPT_OUT
            assert (await good.ask(m.Status))["boot"] == 1
            for wire in (good, greedy, again):
                await wire.close()
    (logged,) = [log for log in logs if log["log_level"] == "error"]
    assert (logged["event"], logged["peer"]) == ("internal error on a connection", "greedy")


async def test_request_that_cannot_be_held_costs_the_connection_that_sent_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as here:
        good, greedy = [await Wire.connect(here.address, n) for n in ("good", "greedy")]
        await good.ask(m.Status)
        (session,) = (x for x in here.daemon._sessions.values() if x.peer.peer_name == "greedy")

        def fail(data: bytes, now_ms: int) -> bytes:
            raise MemoryError

        monkeypatch.setattr(session.peer, "receive", fail)
        greedy.send(m.Status(1))
        with pytest.raises((EOFError, ConnectionError)):
            await greedy.next(m.Ok)
        assert (await good.ask(m.Status))["connections"] == 1
        await good.close()
        await greedy.close()


async def test_turn_without_memory_is_undone_and_its_peer_kept_out(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        good, greedy = [await Wire.connect(here.address, n) for n in ("good", "greedy")]

        def fail() -> None:
            raise MemoryError

        break_status(here, fail)
        greedy.send(m.Status(1))
        for wire in (good, greedy):
            assert (await wire.next(m.Goaway)).code == ErrorCode.INTERNAL_ERROR
            await wire.close()
        again = await Wire.dial(here.address)
        again.send(m.Hello(m.MAGIC, 1, 1, "client", "greedy"))
        assert (await again.next(m.Goaway)).code == ErrorCode.PEER_KEPT_OUT
        good = await Wire.connect(here.address, "good")
        assert (await good.ask(m.Status))["boot"] == 2
        for wire in (again, good):
            await wire.close()


async def test_bug_that_returns_again_and_again_ends_the_daemon(tmp_path: Path) -> None:
    """The supervisor of the daemon decides what to do."""
    async with running(tmp_path) as here:
        for number in range(RECOVERIES_MAX + 1):
            wire = await Wire.connect(here.address, f"guilty{number}")
            break_status(here)
            wire.send(m.Status(1))
            assert (await wire.next(m.Goaway)).code == ErrorCode.INTERNAL_ERROR
            await wire.close()
        with pytest.raises(TurnFailed, match="ZeroDivisionError"):
            await here.task


@pytest.mark.long
async def test_any_amount_of_work_that_fails_twice_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more than RECOVERIES_MAX turns fail, and the daemon still serves at the end."""
    count = RECOVERIES_MAX + 2
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address, "app")
        await wire.ask(m.QueueCreate, "Q")

        def fail(*_: object) -> None:
            bug()

        monkeypatch.setattr(DueWork, "_expire", fail)
        stream = (await wire.ask(m.ProducerOpen, ID))[0]
        wire.send(m.Put(stream, 1, 0, "Q", [record(b"x", expiry_ms=1)] * count))
        await wire.next(m.Goaway)
        await wire.close()
        async with asyncio.timeout(60):
            while len(here.daemon._turns.broker.context.aside.items) < count:
                await asyncio.sleep(0.01)
        wire = await Wire.connect(here.address, "operator")
        found = (await wire.ask(m.AsideList))["items"]
        await wire.close()
        assert {item["kind"] for item in found} == {"due"}
        wire = await Wire.connect(here.address, "other")
        await wire.put(b"O" * 16, "Q", record(b"1"))
        await wire.close()


async def test_connection_made_during_a_restart_of_the_core_is_served(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        guilty = await Wire.connect(here.address, "guilty")
        break_status(here)
        guilty.send(m.Status(1))
        others = await asyncio.gather(*(Wire.dial(here.address) for _ in range(20)))
        await guilty.next(m.Goaway)
        await guilty.close()
        answered = 0
        for wire in others:
            try:
                wire.send(m.Hello(m.MAGIC, 1, 1, "client", "good"))
                await wire.next(m.Welcome)
                await wire.ask(m.Status)
                answered += 1
            except (EOFError, ConnectionError):
                pass  # This connection was open before, and the daemon asks it to reconnect.
            await wire.close()
        again = await Wire.connect(here.address, "good")
        await again.ask(m.Status)
        await again.close()


async def test_core_that_cannot_restart_ends_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the process would listen without an answer to any client."""

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no more")

    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        break_status(here)
        monkeypatch.setattr(daemons, "Turns", fail)
        wire.send(m.Status(1))
        with pytest.raises(StoreFailed, match="cannot restart: MemoryError: no more"):
            await here.task
        await wire.close()


async def test_failed_commit_ends_the_daemon_without_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)

        def fail() -> int:
            here.store.abort()
            raise StoreFailed("the outcome of a commit is unknown: Input/output error")

        monkeypatch.setattr(here.store, "commit_soon", fail)
        wire.send(m.QueueCreate(1, "Q"))
        with pytest.raises(StoreFailed, match="Input/output error"):
            await here.task
        await wire.close()
        assert wire.received == []


async def test_failure_of_the_store_at_the_stop_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as here:

        def fail() -> None:
            here.store.abort()
            raise StoreFailed("full")

        monkeypatch.setattr(here.store, "commit", fail)
        with pytest.raises(StoreFailed, match="full"):
            await here.stop()


async def test_full_map_ends_the_daemon_without_quarantine(tmp_path: Path) -> None:
    async with running(tmp_path, map_bytes=1 << 20) as here:
        wire = await Wire.connect(here.address)
        break_status(here, lambda: here.daemon._turns.broker.context.tx.put(b"x", bytes(2 << 20)))
        wire.send(m.Status(1))
        with pytest.raises(StoreFailed, match="map of 1048576 bytes is full"):
            await here.task
        assert len(here.daemon._admission._quarantine) == 0
        await wire.close()


async def test_store_that_is_taken_away_is_noticed_without_a_turn(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with running(tmp_path, limits={"heartbeat_ms": 40, "liveness_ms": 10_000}) as here:
            (tmp_path / "store" / "data.mdb").unlink()
            with pytest.raises(StoreReplaced):
                await here.task
    (told,) = [log for log in logs if log["log_level"] == "error"]
    assert told["event"] == "stopping: the store was taken away"


# -- snapshots


async def churn(wire: Wire, stream: int, first_id: int, size: int) -> int:
    """Puts and consumes ten messages; returns the number of bytes, or 0 after a refusal."""
    wire.send(m.Put(stream, first_id, first_id - 1, "Q", [record(bytes(size))] * 10))
    refused = (await wire.next(m.Committed)).refused
    if refused:
        assert [code for _, code, _ in refused] == [ErrorCode.STORE_FULL] * 10
        return 0
    wire.send(m.Get(10_000 + first_id, "Q", 10, 0, 0, 1 << 30))
    deliver = await wire.next(m.Deliver)
    handles = b"".join(item[:17] for item in deliver.items)
    wire.send(m.Settle(first_id, m.ACK, deliver.queue_id, handles))
    assert (await wire.next(m.Settled)).exceptions == []
    return size * len(deliver.items)


async def test_snapshot_gives_way_before_what_it_holds_fills_the_store(tmp_path: Path) -> None:
    """Four times the size of the map is put and consumed while the snapshot cannot end."""
    async with running(tmp_path / "data", map_bytes=4 << 20) as here:
        wire, asker = await Wire.connect(here.address), await Wire.connect(here.address, "asker")
        await wire.ask(m.QueueCreate, "Q")
        await wire.ask(m.QueueCreate, "KEPT")
        kept = [b"%d" % number + bytes(9_000) for number in range(100)]
        await asker.put(ID, "KEPT", *map(record, kept))
        asker.send(m.Snapshot(50, str(tmp_path / "snap"), 1_000))
        stream = (await wire.ask(m.ProducerOpen, b"C" * 16))[0]
        turns = moved = 0
        while moved < 4 * (4 << 20):
            moved += await churn(wire, stream, 1 + 10 * turns, 3_500)
            turns += 1
        refused = await asker.next(m.Error)
        assert (refused.request_id, refused.code) == (50, ErrorCode.SNAPSHOT_FAILED)
        assert f"{tmp_path}/snap: the snapshot held " in refused.text
        assert "bytes that the store needed for puts: try again under" in refused.text
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
        assert await asker.bodies("KEPT") == kept
        assert (await asker.ask(m.Status))["boot"] == 1
        asker.send(m.Snapshot(51, str(tmp_path / "snap"), 1 << 30))
        assert (await asker.next(m.Ok)).value["messages"] == 100
        await wire.close()
        await asker.close()


# -- links


async def test_link_carries_messages_between_daemons(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with (
        running(tmp_path / "b", queue_manager={"name": "B"}) as b,
        running(tmp_path / "a", queue_manager={"name": "A"}) as a,
    ):
        here, there = await Wire.connect(a.address), await Wire.connect(b.address)
        await there.ask(m.QueueCreate, "F")
        await there.ask(m.LinkAllow, "A")
        await here.ask(m.LinkCreate, "B", {"addresses": [b.address]})
        await here.ask(m.QueueCreate, "F@B")
        await here.put(ID, "F@B", *(record(b"%d" % i) for i in range(100)))
        there.send(m.Get(50, "F", 1, 20_000))
        await there.next(m.Deliver)
        while (await here.ask(m.LinkShow, "B"))["waiting"]:
            await asyncio.sleep(0)
        assert await there.bodies("F") == [b"%d" % i for i in range(100)]
        for wire in (here, there):
            await wire.close()


async def test_message_for_no_queue_there_stays_and_is_delivered_once_there_is_one_G8(
    tmp_path: Path,
) -> None:
    """The message also stays across a restart of the sender."""
    async with far(tmp_path) as b:
        async with near(tmp_path) as a:
            here, there = await Wire.connect(a.address), await Wire.connect(b.address)
            await set_up(here, there)
            row = await blocked(here)
            assert row["error"].startswith(
                "QUEUE_UNKNOWN: B reports: queue NONE does not exist here"
            )
            assert (row["blocked_queue"], row["blocked_behind"]) == ("NONE", 5)
            await here.close()
        async with near(tmp_path) as a:
            here = await Wire.connect(a.address)
            await blocked(here)
            await there.ask(m.QueueCreate, "NONE")
            assert await go_on(here) == 1
            assert await there.bodies("NONE") == [b"lost"]
            assert await there.bodies("F") == [b"%d" % i for i in range(5)]
            assert await there.bodies("SYSTEM.DEAD.LETTERS") == []
            await here.close()
        await there.close()


async def test_message_for_no_queue_there_is_given_up_after_n_tries_G18(tmp_path: Path) -> None:
    """The dead letter survives a restart of the receiver. Later messages are delivered."""
    async with near(tmp_path) as a:
        here = await Wire.connect(a.address)
        async with far(tmp_path, link={"deliver_retries": 3}) as b:
            there = await Wire.connect(b.address)
            await set_up(here, there)
            assert await go_on(here) == 3
            await there.close()
        async with far(tmp_path) as b:
            there = await Wire.connect(b.address)
            (item,) = (await there.ask(m.Browse, "SYSTEM.DEAD.LETTERS"))["items"]
            behind = item[m.DELIVERY_BYTES :]
            size = records.size_of(behind)
            assert records.decode(behind[:size]).body == b"lost"
            note = unpack(behind[size:])
            assert (note["code"], note["queue"]) == (ErrorCode.QUEUE_UNKNOWN, "NONE")
            assert (note["manager"], note["failed"]) == ("B", 3)
            assert await there.bodies("F") == [b"%d" % i for i in range(5)]
            await there.close()
        await here.close()


def near(tmp_path: Path) -> AbstractAsyncContextManager[Running]:
    (tmp_path / "a").mkdir(exist_ok=True)
    return running(tmp_path / "a", queue_manager={"name": "A"})


def far(tmp_path: Path, **sections: Any) -> AbstractAsyncContextManager[Running]:
    (tmp_path / "b").mkdir(exist_ok=True)
    return running(tmp_path / "b", queue_manager={"name": "B"}, **sections)


async def set_up(here: Wire, there: Wire) -> None:
    """Links A to B, and puts a message for a missing queue, then others for an existing one."""
    address = next(x for x in (await there.ask(m.Status))["listening"] if x.startswith("unix:"))
    await there.ask(m.QueueCreate, "F")
    await there.ask(m.LinkAllow, "A")
    await here.ask(m.LinkCreate, "B", {"addresses": [address], "stopped": True})
    for name in ("F@B", "NONE@B"):
        await here.ask(m.QueueCreate, name)
    await here.put(ID, "NONE@B", record(b"lost"))
    await here.put(b"Q" * 16, "F@B", *(record(b"%d" % i) for i in range(5)))
    await here.ask(m.LinkStart, "B")


async def blocked(wire: Wire) -> dict[str, Any]:
    """Returns the row of the link to B once the link is blocked."""
    while (row := await wire.ask(m.LinkShow, "B"))["state"] != "blocked":
        await asyncio.sleep(0)
    return dict(row)


async def go_on(wire: Wire) -> int:
    """Makes a blocked link retry until no message is pending; returns the number of retries."""
    tries = 0
    while (row := await wire.ask(m.LinkShow, "B"))["waiting"]:
        if row["state"] == "blocked":
            # Without this request the link would retry after 10 s.
            await wire.ask(m.LinkStart, "B")
            tries += 1
        await asyncio.sleep(0)
    return tries


@pytest.mark.parametrize("address", ["a..b:1", "unix:/nul\0"])
async def test_invalid_address_is_reported_and_has_no_other_effect(
    tmp_path: Path, address: str
) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        await wire.ask(m.LinkCreate, "FAR", {"addresses": [address]})
        while not (row := await wire.ask(m.LinkShow, "FAR"))["error"]:
            await asyncio.sleep(0)
        assert row["error"].startswith(f"{address}: ")
        await wire.close()


async def test_refused_request_is_an_answer_not_an_end(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        wire = await Wire.connect(here.address)
        with pytest.raises(RequestError, match="QUEUE_UNKNOWN"):
            await wire.ask(m.QueueShow, "NONE")
        await wire.ask(m.Status)
        await wire.close()


@pytest.mark.parametrize("ordered", [False, True])
async def test_long_messages_pass_a_link_in_pieces(tmp_path: Path, ordered: bool) -> None:
    body = bytes(range(250)) * 12_000
    for name in "ab":
        (tmp_path / name).mkdir()
    async with (
        running(tmp_path / "b", queue_manager={"name": "B"}) as b,
        running(tmp_path / "a", queue_manager={"name": "A"}) as a,
    ):
        here, there = await Wire.connect(a.address), await Wire.connect(b.address)
        await there.ask(m.QueueCreate, "F")
        await there.ask(m.LinkAllow, "A")
        link = {"addresses": [b.address], "ordered": ordered}
        await here.ask(m.LinkCreate, "B", link)
        await here.ask(m.QueueCreate, "F@B")
        await here.put(ID, "F@B", record(b"1"), record(body), record(b"3"))
        while (await here.ask(m.LinkShow, "B"))["waiting"]:
            await asyncio.sleep(0)
        found = []
        for request_id in (60, 61, 62):
            there.send(m.Get(request_id, "F", 1))
            (item,) = (await there.next(m.Deliver)).items
            found.append(records.decode(item[m.DELIVERY_BYTES :]).body)
        assert sorted(map(len, found)) == [1, 1, len(body)]
        assert body in found
        assert not ordered or found == [b"1", body, b"3"]
        for wire in (here, there):
            await wire.close()
