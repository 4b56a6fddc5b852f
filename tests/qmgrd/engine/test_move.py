"""Moves of a journal to a server and back, and those that are interrupted."""

from pathlib import Path
from typing import Any

import pytest

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine import bases
from qmgrd.engine.move import Moved, MoveRefused, move_to_file, move_to_server
from qmgrd.engine.schema import open_place
from qmgrd.engine.server import ServerUnusable
from qmgrd.store.image import open_image
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import DATA_FILE
from qmgrd.store.log import LogForeign
from qmgrd.store.logged_store import LoggedStore
from tests.qmgrd.engine.journals import Journal
from tests.qmgrd.snapshot import stores

MAP_BYTES = 64 << 20
NAME = "QM1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Returns the data directory of a stopped queue manager with content of all kinds."""
    return stores.filled(tmp_path / "qm")


def rows_of(home: Path) -> dict[bytes, bytes]:
    """Returns all rows of a stopped store, apart from the checkpoint."""
    image = open_image(home / "store" / DATA_FILE)
    try:
        with image.transaction() as tx:
            found = {bytes(key): bytes(value) for key, value in tx.scan(b"\0", b"\xff")}
    finally:
        image.close()
    del found[keys.CHECKPOINT]
    return found


def test_store_is_the_same_on_the_server_and_back(home: Path, journal_url: str) -> None:
    moved = move_to_server(home, journal_url)
    before = rows_of(home)
    assert moved.queue_manager == NAME
    assert moved.size_bytes == (home / "store" / DATA_FILE).stat().st_size
    journal = Journal(journal_url, NAME)
    base = bases.newest_base(journal.admin, journal.place)
    assert base is not None
    assert base.position == (moved.record, 0)
    with pytest.raises(MoveRefused, match="on a server already"):
        move_to_server(home, journal_url)

    store = LoggedStore(home, MAP_BYTES, journal.place.log_id)
    assert store.position == base.position
    store.close()
    back = move_to_file(home, journal_url)
    assert back._replace(size_bytes=0) == Moved(NAME, moved.record, 0)
    assert rows_of(home) == before
    with pytest.raises(ServerUnusable, match=rf"was moved to a local file in {home}"):
        open_place(journal.admin, NAME)
    begins(home)
    with pytest.raises(MoveRefused, match="local file already"):
        move_to_file(home, journal_url)
    assert move_to_server(home, journal_url).record > moved.record  # The old log is forgotten.
    journal.close()


def begins(home: Path) -> None:
    """Runs a turn with a local journal."""
    local = JournalStore(home, MAP_BYTES, 1 << 20)
    local.begin().put(b"\x10x", b"1")
    local.commit()
    local.close()


@pytest.mark.parametrize("at", ["qmgrd.engine.bases.write_base", "qmgrd.engine.bases.trim"])
def test_interrupted_move_changes_nothing_and_can_be_repeated(
    home: Path, journal_url: str, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The copy is not complete, or it does not replace the store yet."""

    def stop(*_: Any) -> int:
        raise KeyboardInterrupt

    begins(home)
    before = rows_of(home)
    with monkeypatch.context() as patch:
        patch.setattr(at, stop)
        with pytest.raises(KeyboardInterrupt):
            move_to_server(home, journal_url)
    assert rows_of(home) == before
    moved = move_to_server(home, journal_url)
    assert rows_of(home) == before
    journal = Journal(journal_url, NAME)
    base = bases.newest_base(journal.admin, journal.place)
    assert base is not None
    assert base.position == (moved.record, 0)
    journal.close()


def test_journal_of_another_store_is_not_replaced(home: Path, journal_url: str) -> None:
    other = stores.filled(home.parent / "other")
    begins(other)
    move_to_server(other, journal_url)
    with pytest.raises(MoveRefused, match="has a journal of QM1 already"):
        move_to_server(home, journal_url)
    begins(home)


def test_daemon_with_a_local_journal_refuses_a_moved_store(home: Path, journal_url: str) -> None:
    move_to_server(home, journal_url)
    local = JournalStore(home, MAP_BYTES, 1 << 20)
    with pytest.raises(StoreFailed, match=r"is on a server: give journal\.url"):
        local.begin()
    local.close()


def test_member_refuses_a_store_with_a_local_journal(home: Path, journal_url: str) -> None:
    journal = Journal(journal_url, NAME)
    with pytest.raises(LogForeign, match="qmctl journal move"):
        LoggedStore(home, MAP_BYTES, journal.place.log_id)
    journal.close()


def test_journal_of_an_active_member_stays(home: Path, journal_url: str) -> None:
    move_to_server(home, journal_url)
    journal = Journal(journal_url, NAME)
    journal.take("nyc1")
    with pytest.raises(MoveRefused, match="nyc1 is active: stop all members of QM1 first"):
        move_to_file(home, journal_url)
    journal.close()
    assert move_to_file(home, journal_url).queue_manager == NAME
