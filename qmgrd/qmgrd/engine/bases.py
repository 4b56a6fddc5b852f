"""Bases: copies of the store after a record. A member without a store begins with one.

    base 3, of record 41,000   pieces 1, 2, ..., n, and the SHA-256 of all: complete
    log                        ... 41,001, 41,002, ...
                               ▲ segments that end before are dropped once the base is complete

A base without its SHA-256 is not complete. Nobody reads it, and the next base removes it. The
content of each base is a table, because a table that is dropped leaves no dead rows.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psycopg

from qmgrd.engine.schema import LOCK_CLASS, Place, segments
from qmgrd.store.log import Position

PIECE_BYTES = 1 << 20
# The time to wait for readers of a segment, for example a backup of the server.
DROP_WAIT_MS = 2_000
_LOCK = LOCK_CLASS + 1  # held by the session that makes a base


class Base(NamedTuple):
    """A complete base."""

    number: int
    position: Position
    size_bytes: int
    sha256: bytes


class BaseDamaged(Exception):
    """The content of a base is not what was written."""


def newest_base(connection: psycopg.Connection, place: Place) -> Base | None:
    """Returns the newest complete base, or None.

    Raises:
        psycopg.Error: The connection was lost.
    """
    row = connection.execute(
        "select number, record, epoch, size_bytes, sha256 from qmgrd.base "
        "where manager = %s and sha256 is not null order by record desc, number desc limit 1",
        (place.manager,),
    ).fetchone()
    if row is None:
        return None
    number, record, epoch, size_bytes, sha256 = row
    return Base(number, Position(record, epoch), size_bytes, bytes(sha256))


def log_bytes(connection: psycopg.Connection, place: Place) -> int:
    """Returns the size of the log on the server.

    Raises:
        psycopg.Error: The connection was lost.
    """
    row = connection.execute(
        "select coalesce(sum(pg_total_relation_size(to_regclass(name))), 0)::bigint "
        "from unnest(%s::text[]) as name",
        ([place.segment(number) for number in segments(connection, place)],),
    ).fetchone()
    return int(row[0]) if row is not None else 0


def bytes_since(connection: psycopg.Connection, place: Place, record: int) -> int:
    """Returns the approximate size of the log after *record*.

    Raises:
        psycopg.Error: The connection was lost.
    """
    total = 0
    for number in reversed(segments(connection, place)):
        row = connection.execute(
            f"select min(record), max(record), pg_total_relation_size('{place.segment(number)}') "
            f"from {place.segment(number)}"
        ).fetchone()
        if row is None or row[0] is None:
            continue
        first, last, size_bytes = row
        if last <= record:
            break
        later = last - max(record, first - 1)
        total += size_bytes * later // (last - first + 1)
    return total


def begin_base(
    connection: psycopg.Connection, place: Place, member: str, position: Position
) -> int | None:
    """Begins a base, and returns its number, or None if another member makes one.

    Raises:
        psycopg.Error: The connection was lost.
    """
    row = connection.execute("select pg_try_advisory_lock(%s, %s)", (_LOCK, place.manager))
    if not (row.fetchone() or (False,))[0]:
        return None
    try:
        return _begun(connection, place, member, position)
    except BaseException:
        with suppress(psycopg.Error):
            end_base(connection, place)
        raise


def _begun(connection: psycopg.Connection, place: Place, member: str, position: Position) -> int:
    _remove(connection, place, "sha256 is null")
    found = connection.execute(
        "insert into qmgrd.base (manager, record, epoch, size_bytes, member) "
        "values (%s, %s, %s, 0, %s) returning number",
        (place.manager, position.number, position.epoch, member),
    ).fetchone()
    assert found is not None
    number = int(found[0])
    table = place.base(number)
    connection.execute(f"create table {table} (piece int primary key, content bytea not null)")
    connection.execute(f"alter table {table} alter content set storage external")
    return number


def write_base(
    connection: psycopg.Connection, place: Place, number: int, pieces: Iterable[bytes]
) -> int:
    """Writes the content of a base, then makes it complete. Returns its size.

    Raises:
        psycopg.Error: The connection was lost. The base is not complete.
    """
    digest, size_bytes = hashlib.sha256(), 0
    insert = f"insert into {place.base(number)} values (%s, %b)"
    for at, piece in enumerate(pieces, 1):
        digest.update(piece)
        size_bytes += len(piece)
        connection.execute(insert, (at, piece))
    connection.execute(
        "update qmgrd.base set size_bytes = %s, sha256 = %s where number = %s",
        (size_bytes, digest.digest(), number),
    )
    return size_bytes


def end_base(connection: psycopg.Connection, place: Place) -> None:
    """Lets another member make the next base.

    Raises:
        psycopg.Error: The connection was lost.
    """
    connection.execute("select pg_advisory_unlock(%s, %s)", (_LOCK, place.manager))


def read_base(connection: psycopg.Connection, place: Place, base: Base, path: Path) -> None:
    """Writes the content of *base* to the new file *path*.

    Raises:
        BaseDamaged: The content is not what was written.
        psycopg.Error: The connection was lost, or the base was removed meanwhile.
        OSError: The file cannot be written.
    """
    digest, size_bytes = hashlib.sha256(), 0
    with (
        connection.transaction(),
        path.open("xb") as file,
        connection.cursor("base", binary=True) as cursor,
    ):
        cursor.itersize = 8
        cursor.execute(f"select content from {place.base(base.number)} order by piece")
        for (piece,) in cursor:
            digest.update(piece)
            size_bytes += len(piece)
            file.write(piece)
    if (size_bytes, digest.digest()) != (base.size_bytes, base.sha256):
        raise BaseDamaged(
            f"base {base.number} is damaged: the server returned {size_bytes} bytes with SHA-256 "
            f"{digest.hexdigest()[:12]}, but {base.size_bytes} with {base.sha256.hex()[:12]} were "
            "written"
        )


def trim(connection: psycopg.Connection, place: Place) -> list[int]:
    """Removes all bases but the newest complete one, and the segments that end before it.

    Returns the numbers of the segments that were dropped. If a table has a reader for too long,
    this table and the ones after it remain until the next time.

    Raises:
        psycopg.Error: The connection was lost.
    """
    base = newest_base(connection, place)
    if base is None:
        return []
    dropped: list[int] = []
    with suppress(psycopg.errors.LockNotAvailable):
        _drop_segments(connection, place, base, dropped)
        older = f"(record, number) < ({base.position.number}, {base.number})"
        _remove(connection, place, f"sha256 is not null and {older}")
    return dropped


def _drop_segments(
    connection: psycopg.Connection, place: Place, base: Base, dropped: list[int]
) -> None:
    found = segments(connection, place)
    for number, later in pairwise(found):
        row = connection.execute(f"select min(record) from {place.segment(later)}").fetchone()
        first = None if row is None else row[0]
        # The last record of a segment stays, so that a member at this record can check its epoch.
        if first is None or first > base.position.number:
            break
        _drop(connection, place.segment(number))
        dropped.append(number)


def _remove(connection: psycopg.Connection, place: Place, which: str) -> None:
    """Removes bases."""
    rows = connection.execute(
        f"select number from qmgrd.base where manager = %s and {which}", (place.manager,)
    ).fetchall()
    for (number,) in rows:
        _drop(connection, place.base(number))
        connection.execute("delete from qmgrd.base where number = %s", (number,))


def _drop(connection: psycopg.Connection, table: str) -> None:
    with connection.transaction():
        connection.execute(f"set local lock_timeout = {DROP_WAIT_MS}")
        connection.execute(f"drop table if exists {table}")
