"""Opens the store of a member, and rebuilds one that is missing or too old from a base."""

import itertools
import os
import shutil
from pathlib import Path

import psycopg
import structlog

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine.bases import Base, BaseDamaged, newest_base, read_base
from qmgrd.engine.schema import Place
from qmgrd.engine.server import session
from qmgrd.store.files import sync
from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.lmdb_store import DATA_FILE, StoreMissing, lock_directory
from qmgrd.store.logged_store import LoggedStore

log = structlog.get_logger()


def open_member_store(url: str, place: Place, directory: Path, map_bytes: int) -> LoggedStore:
    """Opens the store in *directory*. If it is missing or unreadable, rebuilds it.

    An unreadable store is kept under another name.

    Raises:
        ServerAway, ServerUnusable: The server cannot be read.
        LogForeign, StoreLocked, StoreIsSnapshot, OSError: See :class:`LoggedStore`.
    """
    try:
        if (directory / "store" / DATA_FILE).exists():
            return LoggedStore(directory, map_bytes, place.log_id)
    except (StoreUnreadable, StoreMissing) as error:
        log.error("the store is unreadable, and will be rebuilt from the journal", why=str(error))
    rebuild(url, place, directory)
    return LoggedStore(directory, map_bytes, place.log_id)


def rebuild(url: str, place: Place, directory: Path) -> None:
    """Replaces the store in *directory* by the newest base, or by an empty store if there is none.

    Raises:
        ServerAway, ServerUnusable: The server cannot be read.
        StoreFailed: The base is damaged.
        StoreLocked, OSError: The directory cannot be used.
    """
    directory.mkdir(0o700, parents=True, exist_ok=True)
    lock_fd = lock_directory(directory)
    try:
        with session(url, "rebuild") as connection:
            base = newest_base(connection, place)
            new = directory / "store.rebuilt"
            shutil.rmtree(new, ignore_errors=True)
            if base is not None:
                _fetch(connection, place, base, new)
            _put_aside(directory)
            if base is not None:
                new.rename(directory / "store")
                sync(directory)
                log.info("rebuilt the store from a base", record=base.position.number)
    finally:
        os.close(lock_fd)


def _fetch(connection: psycopg.Connection, place: Place, base: Base, new: Path) -> None:
    new.mkdir(0o700)
    try:
        read_base(connection, place, base, new / DATA_FILE)
    except BaseDamaged as error:
        raise StoreFailed(f"{error}: the journal cannot rebuild the store") from error
    sync(new / DATA_FILE)
    sync(new)


def _put_aside(directory: Path) -> None:
    """Renames a store that cannot be used any more. It may have the only copy of a message."""
    store, aside = directory / "store", directory / "store.old"
    if store.exists():
        numbers = itertools.count(2)
        while aside.exists():
            aside = directory / f"store.old-{next(numbers)}"
        store.rename(aside)
        log.warning("the former store was kept", path=str(aside))
    (directory / "qmgrd.lock").unlink(missing_ok=True)  # It says that a store must exist.
