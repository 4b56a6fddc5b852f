"""Tests that a real daemon starts even from a store that a bug or another version damaged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.disk_stores import disk_store
from tests.process.daemon import Daemon
from tests.qmgrd.core.harness import Manager, record

pytestmark = pytest.mark.process
EVENTS, DEPTH_MAX, STARTS = "SYSTEM.EVENTS", 10_000, 10


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "data")
    try:
        yield daemon
    finally:
        daemon.close()


@pytest.mark.long
def test_member_of_a_group_on_the_queue_of_events_does_not_prevent_a_start(daemon: Daemon) -> None:
    """The next event evicts the member. The event reports an expiry, so it occurs at each start."""
    daemon.data_dir.mkdir()
    store = disk_store(daemon.data_dir, 1 << 30)
    manager = Manager(store)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    empties = [record(b"")] * (DEPTH_MAX - 1)
    manager.fill(EVENTS, record(b"", group=(b"g" * 24, 1, False)), *empties)
    app.put("Q", b"x", expiry_ms=1)
    store.close()
    for start in range(STARTS):
        daemon.start()
        with daemon.connect() as wire:
            assert wire.ask(m.Status)["queues"] == 2
            (newest,) = wire.get(EVENTS, 1) if start == STARTS - 1 else [None]
        assert daemon.stop() == 0, daemon.said
        assert daemon.find("failed") == []
    assert newest is not None


def test_invalid_definition_is_named_and_the_daemon_serves(daemon: Daemon) -> None:
    daemon.start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "GOOD")
        wire.ask(m.QueueCreate, "BAD")
    assert daemon.stop() == 0
    store = disk_store(daemon.data_dir, 1 << 30)
    rows.put(store.begin(), keys.SPACE_QUEUE + b"BAD", pack({"kind": "local", "queue_id": "?"}))
    store.commit()
    store.close()
    for _ in range(2):
        daemon.start()
        with daemon.connect() as wire:
            wire.producer(b"P" * 16).put("GOOD", records.encode(records.Fields(b"x")))
            assert len(wire.drain("GOOD")) == 1
            (first, _) = wire.ask(m.AsideList)["items"]
            assert first["what"] == "the definition of queue BAD"
        assert daemon.stop() == 0, daemon.said
