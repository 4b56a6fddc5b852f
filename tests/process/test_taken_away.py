"""Tests that the daemon notices removed files, reports them, and sends no answers afterwards."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from tests.process.daemon import Daemon

pytestmark = pytest.mark.process
ID = b"P" * 16
Make = Callable[..., Daemon]


def record(body: bytes) -> bytes:
    return records.encode(records.Fields(body))


def remove_file(store: Path) -> None:
    (store / "data.mdb").unlink()


@pytest.mark.parametrize("remove", [remove_file, shutil.rmtree])
def test_removed_store_ends_the_daemon_before_the_next_answer(
    make: Make, remove: Callable[[Path], None]
) -> None:
    daemon = make().start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        producer = wire.producer(ID)
        remove(daemon.data_dir / "store")
        with pytest.raises((EOFError, ConnectionError)):
            producer.put("Q", record(b"x"))
    assert daemon.exit_code() == 3, daemon.said
    (told,) = daemon.find("stopping: the store was taken away")
    assert "data.mdb was removed or replaced" in told["error"]
    assert daemon.launch().exit_code() == 3, daemon.said
    (told,) = daemon.find("cannot open the store")
    assert "data.mdb is missing, but a queue manager has used this directory" in told["why"]


def test_removed_journal_ends_the_daemon_and_loses_nothing(make: Make) -> None:
    daemon = make().start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        producer = wire.producer(ID)
        assert producer.put("Q", record(b"x")) == []
        (daemon.data_dir / "store" / "journal").unlink()
        with pytest.raises((EOFError, ConnectionError)):
            producer.put("Q", record(b"y"))
    assert daemon.exit_code() == 3, daemon.said
    (told,) = daemon.find("stopping: stored data is intact; start the daemon again")
    assert "journal was removed while the daemon was running" in told["error"]
    with daemon.start().connect() as wire:
        assert [records.decode(data).body for data in wire.drain("Q")] == [b"x"]


def test_snapshot_restores_a_removed_store(make: Make, tmp_path: Path) -> None:
    daemon = make().start()
    with daemon.connect() as wire:
        wire.ask(m.QueueCreate, "Q")
        wire.producer(ID).put("Q", record(b"x"))
        wire.ask(m.Snapshot, str(tmp_path / "snapshot"))
    assert daemon.stop() == 0
    store = daemon.data_dir / "store"
    shutil.rmtree(store)
    store.mkdir()
    shutil.copy(tmp_path / "snapshot" / "data.mdb", store)
    with daemon.start().connect() as wire:
        assert [records.decode(data).body for data in wire.drain("Q")] == [b"x"]


@pytest.mark.parametrize("unix", ["", "off"])
def test_removed_lock_file_lets_no_second_daemon_in(make: Make, unix: str) -> None:
    listen = {"tcp": ["127.0.0.1:0"], "unix": unix}
    first, second = make(listen=listen).start(), make(listen=listen)
    with first.connect() as wire:
        (first.data_dir / "qmgrd.lock").unlink()
        data = first.data_dir / "store" / "data.mdb"
        before = data.read_bytes()
        assert second.launch().exit_code() == 3, second.said
        assert "is in use by another qmgrd" in second.find("cannot open the store")[0]["why"]
        assert data.read_bytes() == before
        assert wire.ask(m.Status)["boot"] == 1
    assert first.stop() == 0
