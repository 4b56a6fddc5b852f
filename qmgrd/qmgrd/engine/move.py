"""Moves the journal of a stopped queue manager from its local file to a server, and back.

    to the server   copy the store ─▶ the copy becomes base 1 of a new log ─▶ the copy replaces the
                    store, and its local journal is not used any more
    to the file     follow the log to its end ─▶ mark the log as moved, under the fence ─▶ the store
                    says that it needs no record

A move that ends in between can be repeated. Links and producers notice nothing, because the store
stays the same.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import psycopg

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.engine import bases
from qmgrd.engine.fence import claim, read_fence
from qmgrd.engine.reader import LogReader
from qmgrd.engine.schema import Place, forget_place, mark_moved, open_place
from qmgrd.engine.server import ServerUnusable, session
from qmgrd.store.checkpoint import Checkpoint
from qmgrd.store.files import sync
from qmgrd.store.image import open_image
from qmgrd.store.inspect import map_bytes
from qmgrd.store.log import Position, epoch_of
from qmgrd.store.logged_store import LoggedStore
from qmgrd.store.offline import offline_store

MEMBER = "qmctl journal move"


class Moved(NamedTuple):
    """The result of a move."""

    queue_manager: str
    record: int  # the last record of the journal
    size_bytes: int  # the size of the base, or of the store


class MoveRefused(Exception):
    """The journal cannot be moved. Nothing was changed."""


def move_to_server(directory: Path, url: str) -> Moved:
    """Moves the journal of the stopped queue manager in *directory* to a server.

    Raises:
        MoveRefused: The journal is on a server already, or the server has a journal of this name.
        StoreInUse, StoreUnreadable, JournalUnreadable, RowDamaged: The store cannot be read.
        ServerAway, ServerUnusable: The server cannot keep the journal.
        OSError: The copy cannot be written.
    """
    new = directory / "store.moved"
    with offline_store(directory) as store:
        store.finish_journal()
        name, checkpoint = _name_in(store.data), store.checkpoint()
        if checkpoint is not None and checkpoint.is_on_server:
            raise MoveRefused(f"the journal of {name} is on a server already")
        record = checkpoint.number if checkpoint is not None else 0
        with session(url, "move") as connection:
            place = _new_place(connection, name, record)
            shutil.rmtree(new, ignore_errors=True)
            begin = Checkpoint(epoch_of(place.log_id, 0), record, is_last=False, is_on_server=True)
            copy = store.copy_to(new, begin)
            size_bytes = _upload(connection, place, copy, Position(record, 0))
        old = directory / "store.old"
        shutil.rmtree(old, ignore_errors=True)
        (directory / "store").rename(old)
        new.rename(directory / "store")
        sync(directory)
    shutil.rmtree(old)
    return Moved(name, record, size_bytes)


def move_to_file(directory: Path, url: str) -> Moved:
    """Moves the journal of a queue manager, all of whose members are stopped, to *directory*.

    Raises:
        MoveRefused: A member is active, or the journal is not on a server.
        LogTrimmed, LogShort: The store of this member does not fit to the log.
        StoreFailed, StoreUnreadable, StoreLocked, RowDamaged: The store cannot be used.
        ServerAway, ServerUnusable: The server cannot be read.
    """
    directory = directory.absolute()
    with offline_store(directory) as offline:
        name, checkpoint = _name_in(offline.data), offline.checkpoint()
        data, size = offline.data, map_bytes(offline.data)
    if checkpoint is None or not checkpoint.is_on_server:
        raise MoveRefused(f"the journal of {name} is a local file already")
    with session(url, "move") as connection:
        place = open_place(connection, name, str(directory))
        fence = read_fence(connection, place)
        if fence.is_held:
            raise MoveRefused(f"{fence.member} is active: stop all members of {name} first")
        store = LoggedStore(directory, size, place.log_id)
        try:
            reader = LogReader(url, place, "move")
            _follow(store, reader)
            why = "the journal was moved to a local file"
            names = MEMBER, "", why
            if claim(connection, place, fence, *names, is_forced=False, is_move=True) is None:
                raise MoveRefused("another member has become active: stop it first")
            _follow(store, reader)
            reader.close()
            mark_moved(connection, place, str(directory))
            record = store.position.number
            store.end_log()
        finally:
            store.close()
    return Moved(name, record, data.stat().st_size)


def _name_in(data: Path) -> str:
    """Returns the name of the queue manager."""
    image = open_image(data)
    try:
        with image.transaction() as tx:
            return rows.get(tx, keys.STORE)[keys.STORE_ROW.size :].decode()
    finally:
        image.close()


def _new_place(connection: psycopg.Connection, name: str, record: int) -> Place:
    """Returns the place of a log without records. Removes one that was moved away.

    A base after *record* is that of a move that was interrupted.
    """
    try:
        place = open_place(connection, name)
    except ServerUnusable:
        if not forget_place(connection, name):
            raise
        place = open_place(connection, name)
    fence = read_fence(connection, place)
    base = bases.newest_base(connection, place)
    if fence.epoch or fence.is_held or (base is not None and base.position.number != record):
        raise MoveRefused(
            f"the server has a journal of {name} already: give this queue manager another name or "
            "another database"
        )
    return place


def _upload(connection: psycopg.Connection, place: Place, data: Path, position: Position) -> int:
    number = bases.begin_base(connection, place, MEMBER, position)
    if number is None:
        raise MoveRefused("another command is moving this journal")
    with data.open("rb") as file:
        pieces = iter(lambda: file.read(bases.PIECE_BYTES), b"")
        size_bytes = bases.write_base(connection, place, number, pieces)
    bases.end_base(connection, place)
    bases.trim(connection, place)
    return size_bytes


def _follow(store: LoggedStore, reader: LogReader) -> None:
    while True:
        news = reader.look(store.position)
        for record in news.records:
            store.follow(record)
        if news.is_end:
            return
