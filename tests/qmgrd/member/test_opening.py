"""Tests of the store of a member that starts. test_member.py tests rebuilt stores in use."""

from pathlib import Path

import pytest

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine.bases import begin_base, write_base
from qmgrd.engine.schema import Place, open_place
from qmgrd.engine.server import ServerAway, connect
from qmgrd.member.opening import open_member_store, rebuild
from qmgrd.store.checkpoint import content_of
from qmgrd.store.log import Position, Record
from qmgrd.store.logged_store import LoggedStore

SIZE = 1 << 24


def place_of(url: str) -> Place:
    with connect(url, "test") as connection:
        return open_place(connection, "NYC")


def base_of(url: str, place: Place, directory: Path, *, is_damaged: bool = False) -> None:
    """Writes a base, which is the store in *directory* after record 1."""
    store = LoggedStore(directory, SIZE, place.log_id)
    store.follow(Record(1, 1, content_of([])))
    store.close()
    content = (directory / "store" / "data.mdb").read_bytes()
    with connect(url, "test") as connection:
        number = begin_base(connection, place, "nyc1", Position(1, 1))
        assert number is not None
        write_base(connection, place, number, [content])
        if is_damaged:
            connection.execute(f"update {place.base(number)} set content = 'x'")


def test_new_member_begins_with_an_empty_store(journal_url: str, tmp_path: Path) -> None:
    store = open_member_store(journal_url, place_of(journal_url), tmp_path / "new", SIZE)
    assert store.position == Position(0, 0)
    store.close()


def test_new_member_begins_with_the_newest_base(journal_url: str, tmp_path: Path) -> None:
    place = place_of(journal_url)
    base_of(journal_url, place, tmp_path / "1")
    store = open_member_store(journal_url, place, tmp_path / "2", SIZE)
    assert store.position == Position(1, 1)
    store.close()


def test_damaged_base_replaces_nothing(journal_url: str, tmp_path: Path) -> None:
    place = place_of(journal_url)
    base_of(journal_url, place, tmp_path / "1", is_damaged=True)
    with pytest.raises(StoreFailed, match="the journal cannot rebuild the store"):
        rebuild(journal_url, place, tmp_path / "1")
    store = LoggedStore(tmp_path / "1", SIZE, place.log_id)
    assert store.position == Position(1, 1)
    store.close()


def test_unreadable_store_is_kept_while_the_server_is_away(tmp_path: Path) -> None:
    file = tmp_path / "store" / "data.mdb"
    file.parent.mkdir()
    file.write_bytes(b"no store" * 4_096)
    with pytest.raises(ServerAway):
        open_member_store("postgresql://127.0.0.1:1/x", Place(1, b"12345678"), tmp_path, SIZE)
    assert file.read_bytes() == b"no store" * 4_096
