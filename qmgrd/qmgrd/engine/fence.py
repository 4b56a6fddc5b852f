"""The fence of a log: one row says which member is active, and in which epoch.

A record is appended only if the epoch of its member is that of the row, in one statement. A
takeover raises the epoch, and waits for the statement that appends a record at this moment. So a
member that was active before appends nothing more, however late it notices.

The session of an active member holds an advisory lock. If the session ends, the lock is free, and
the standbys see it at once. The lock is only a sign: the epoch decides.
"""

from typing import NamedTuple

import psycopg

from qmgrd.engine.schema import LOCK_CLASS, Place
from qmgrd.engine.server import ServerUnusable

# An epoch is raised by up to this number, at random. So an epoch that a failover of the server has
# lost is not given to another member.
EPOCH_STEPS = 1_000_000
CLAIM_WAIT_MS = 5_000  # the time to wait for a statement that appends a record
END_WAIT_MS = 2_000  # the time to wait for the end of another session


class Fence(NamedTuple):
    """The row of a queue manager."""

    epoch: int
    member: str  # the member that is or was active, or ""
    addresses: str  # its addresses, with commas
    since_us: int  # the time when it became active, by the clock of the server
    why: str  # the reason why it became active
    wanted: str  # the member that an operator wants to be active next, or ""
    is_held: bool  # whether the session of an active member exists
    now_us: int  # the time of the server


class Claim(NamedTuple):
    """A successful takeover."""

    epoch: int
    now_us: int


def read_fence(connection: psycopg.Connection, place: Place) -> Fence:
    """Returns the row.

    Raises:
        ServerUnusable: The row was deleted.
        psycopg.Error: The connection was lost.
    """
    row = connection.execute(
        "select epoch, member, addresses, (extract(epoch from since) * 1000000)::bigint, why, "
        "wanted, exists(select from pg_locks where locktype = 'advisory' and granted "
        "and classid = %(lock)s and objid = %(number)s "
        "and database = (select oid from pg_database where datname = current_database())), "
        "(extract(epoch from clock_timestamp()) * 1000000)::bigint "
        "from qmgrd.manager where number = %(number)s",
        {"lock": LOCK_CLASS, "number": place.manager},
        prepare=True,
    ).fetchone()
    if row is None:
        raise ServerUnusable(
            f"queue manager {place.manager} was deleted from the table qmgrd.manager: restore the "
            "database, or restart this member to begin a new journal"
        )
    return Fence(*row)


def claim(
    connection: psycopg.Connection,
    place: Place,
    seen: Fence,
    member: str,
    addresses: str,
    why: str,
    *,
    is_forced: bool,
    is_move: bool = False,
) -> Claim | None:
    """Makes *member* active, or returns None if another member was faster.

    Args:
        connection: The connection that will append the records.
        place: The place of the log.
        seen: The row that the takeover stems from.
        member: The name of the member.
        addresses: The addresses at which clients reach it.
        why: The reason of the takeover, for operators.
        is_forced: Whether the session of the active member is ended if it still exists.
        is_move: Whether a journal that was moved to a local file may be claimed.

    Raises:
        psycopg.Error: The connection was lost, or a statement that appends a record did not end.
            Whether the member is active is unknown.
    """
    if is_forced:
        # A session that hangs in a transaction would block the change of the row.
        take_lock(connection, place, seen.epoch)
    elif not lock(connection, place):
        return None
    with connection.transaction():
        connection.execute(f"set local lock_timeout = {CLAIM_WAIT_MS}")
        row = connection.execute(
            "update qmgrd.manager set epoch = epoch + 1 + floor(random() * %s)::bigint, "
            "member = %s, addresses = %s, why = %s, "
            "wanted = '', since = clock_timestamp() "
            "where number = %s and epoch = %s and (moved = '' or %s) "
            "returning epoch, (extract(epoch from since) * 1000000)::bigint",
            (EPOCH_STEPS, member, addresses, why, place.manager, seen.epoch, is_move),
        ).fetchone()
    if row is None:
        unlock(connection)
        return None
    return Claim(*row)


def resign(connection: psycopg.Connection, place: Place, epoch: int, why: str) -> None:
    """Says that the member of *epoch* is not active any more, so that standbys need not wait.

    Raises:
        psycopg.Error: The connection was lost.
    """
    connection.execute(
        "update qmgrd.manager set member = '', why = %s where number = %s and epoch = %s",
        (why, place.manager, epoch),
    )


def want(connection: psycopg.Connection, place: Place, member: str) -> None:
    """Names the member that becomes active when the session of the active one ends.

    Raises:
        psycopg.Error: The connection was lost.
    """
    connection.execute(
        "update qmgrd.manager set wanted = %s where number = %s", (member, place.manager)
    )


def lock(connection: psycopg.Connection, place: Place) -> bool:
    """Takes the lock of the active member for this session, if it is free.

    Raises:
        psycopg.Error: The connection was lost.
    """
    row = connection.execute(try_lock(place)).fetchone()
    return row is not None and bool(row[0])


def try_lock(place: Place) -> bytes:
    """Returns the query that takes the lock if it is free, and returns whether it did."""
    return f"select pg_try_advisory_lock({LOCK_CLASS}, {place.manager})".encode()


def unlock(connection: psycopg.Connection) -> None:
    """Releases the lock of this session.

    Raises:
        psycopg.Error: The connection was lost.
    """
    connection.execute("select pg_advisory_unlock_all()")


def take_lock(
    connection: psycopg.Connection, place: Place, epoch: int, session: int | None = None
) -> None:
    """Takes the lock, and ends the session that holds it. Does nothing after another takeover.

    The fence holds without this. But a session that hangs would keep the lock, and standbys could
    not see the end of this member's session. If the rights do not suffice to end the session, or if
    it does not end in time, the appender takes the lock later.

    Args:
        connection: The session that takes the lock.
        place: The place of the log.
        epoch: The epoch of the fence that the caller has seen.
        session: The process of the only session that may be ended. None: any session.

    Raises:
        psycopg.Error: The connection was lost.
    """
    if lock(connection, place):
        return
    try:
        ended = connection.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' "
            "and granted and classid = %(lock)s and objid = %(number)s "
            "and database = (select oid from pg_database where datname = current_database()) "
            "and exists(select from qmgrd.manager where number = %(number)s and epoch = %(epoch)s) "
            "and coalesce(pid = %(session)s::int, true)",
            {"lock": LOCK_CLASS, "number": place.manager, "epoch": epoch, "session": session},
        ).fetchall()
        if ended:
            with connection.transaction():
                connection.execute(f"set local lock_timeout = {END_WAIT_MS}")
                connection.execute("select pg_advisory_lock(%s, %s)", (LOCK_CLASS, place.manager))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable):
        return
