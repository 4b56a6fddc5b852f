"""The tables of the journals on a server. All are in the schema ``qmgrd``.

    manager        one row for each queue manager: its number, its epoch, the active member
    member         one row for each process: what it does, and the last record that it has
    journal_7_12   segment 12 of the log of queue manager 7; segments are only appended to and
                   dropped, so they have no dead rows
    base           the bases of all logs; a base is a copy of the store after a record
    base_7_3       the content of base 3, of queue manager 7

A segment is a table and not a partition of one, because attaching and dropping partitions would
lock the whole log, and wait for everyone who reads it.
"""

from typing import NamedTuple
from uuid import UUID

import psycopg

from qmgrd.engine.server import ServerUnusable, explained

FORMAT = 1
# The first key of the advisory locks of sessions that are active. The second is the number.
LOCK_CLASS = 0x716D6772
_CREATION_LOCK = LOCK_CLASS << 8
_TABLES = """
create table if not exists qmgrd.manager (
    number int primary key generated always as identity,
    name text not null unique,
    log uuid not null default gen_random_uuid(),
    format int not null,
    epoch bigint not null default 0,
    member text not null default '',
    addresses text not null default '',
    since timestamptz not null default clock_timestamp(),
    why text not null default '',
    wanted text not null default '',
    moved text not null default ''
);
create table if not exists qmgrd.member (
    manager int references qmgrd.manager on delete cascade,
    member text,
    is_active boolean not null,
    record bigint not null,
    addresses text not null,
    seen timestamptz not null,
    primary key (manager, member)
) with (fillfactor = 20);
create table if not exists qmgrd.base (
    number bigint primary key generated always as identity,
    manager int not null references qmgrd.manager on delete cascade,
    record bigint not null,
    epoch bigint not null,
    size_bytes bigint not null,
    sha256 bytea,
    member text not null,
    at timestamptz not null default clock_timestamp()
);
"""


class Place(NamedTuple):
    """The place of the journal of one queue manager on the server."""

    manager: int
    log_id: bytes  # the first bytes of the id of the log

    def segment(self, number: int) -> str:
        """Returns the name of the table of a segment."""
        return f"qmgrd.journal_{self.manager}_{number}"

    def base(self, number: int) -> str:
        """Returns the name of the table with the content of a base."""
        return f"qmgrd.base_{self.manager}_{number}"


def open_place(connection: psycopg.Connection, name: str, moved_to: str = "") -> Place:
    """Returns the place of the journal of queue manager *name*. Creates it the first time.

    Args:
        moved_to: A directory. A journal that was moved to it is accepted.

    Raises:
        ServerUnusable: The rights do not suffice, or a newer version wrote the tables.
        ServerAway: The connection was lost.
    """
    try:
        found = _find(connection, name)
        if found is None:
            _create(connection, name)
            found = _find(connection, name)
        _check_rights(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ServerUnusable(
            f"the role of journal.url has not the rights that a journal needs: "
            f"{error.diag.message_primary}: GRANT CREATE ON DATABASE ... TO ..., or create the "
            "schema qmgrd for this role, and let only this role create its tables"
        ) from error
    except psycopg.Error as error:
        raise explained(error) from error
    assert found is not None
    number, log, version, moved = found
    if version != FORMAT:
        raise ServerUnusable(
            f"the journal of {name} has format {version}, but this qmgrd reads {FORMAT}: "
            "use the version that wrote it"
        )
    if moved and moved != moved_to:
        raise ServerUnusable(
            f"the journal of {name} was moved to a local file in {moved}: remove journal.url"
        )
    return Place(number, log.bytes[:8])


def mark_moved(connection: psycopg.Connection, place: Place, directory: str) -> None:
    """Records that the journal was moved to *directory*, so that no member uses the log any more.

    Raises:
        psycopg.Error: The connection was lost.
    """
    connection.execute(
        "update qmgrd.manager set moved = %s where number = %s", (directory, place.manager)
    )


def forget_place(connection: psycopg.Connection, name: str) -> bool:
    """Removes a journal that was moved to a local file. Returns whether there was one.

    Raises:
        psycopg.Error: The connection was lost.
    """
    row = connection.execute(
        "select number, log from qmgrd.manager where name = %s and moved <> ''", (name,)
    ).fetchone()
    if row is None:
        return False
    place = Place(row[0], row[1].bytes[:8])
    bases = connection.execute(
        "select number from qmgrd.base where manager = %s", (place.manager,)
    ).fetchall()
    for table in (
        *(place.segment(number) for number in segments(connection, place)),
        *(place.base(number) for (number,) in bases),
    ):
        connection.execute(f"drop table if exists {table}")
    connection.execute("delete from qmgrd.manager where number = %s", (place.manager,))
    return True


def create_segment(place: Place, number: int) -> str:
    """Returns the statement that creates a segment if it does not exist."""
    table = place.segment(number)
    # To alter a table that exists would wait for its readers, and all others would wait, too.
    return f"""
        do $$ begin
            if to_regclass('{table}') is null then
                create table {table} (
                    record bigint primary key,
                    epoch bigint not null,
                    at timestamptz not null default clock_timestamp(),
                    content bytea not null
                );
                alter table {table} alter content set storage external;
            end if;
        end $$
    """


def segments(connection: psycopg.Connection, place: Place) -> list[int]:
    """Returns the numbers of the segments that exist, in order.

    Raises:
        psycopg.Error: The connection was lost.
    """
    prefix = place.segment(0).removeprefix("qmgrd.").removesuffix("0")
    rows = connection.execute(
        "select substr(c.relname, %s)::int from pg_class c "
        "join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = 'qmgrd' and c.relkind = 'r' and c.relname ~ %s order by 1",
        (len(prefix) + 1, f"^{prefix}[0-9]+$"),
    )
    return [number for (number,) in rows]


def _find(connection: psycopg.Connection, name: str) -> tuple[int, UUID, int, str] | None:
    exists = connection.execute("select to_regclass('qmgrd.base') is not null").fetchone()
    if exists is None or not exists[0]:
        return None
    return connection.execute(
        "select number, log, format, moved from qmgrd.manager where name = %s", (name,)
    ).fetchone()


def _check_rights(connection: psycopg.Connection) -> None:
    """Checks that the role can begin a segment, which it does only now and then."""
    row = connection.execute("select has_schema_privilege('qmgrd', 'create')").fetchone()
    if row is None or not row[0]:
        raise ServerUnusable(
            "the role of journal.url may not create tables in the schema qmgrd: GRANT USAGE, "
            "CREATE ON SCHEMA qmgrd TO ..."
        )


def _create(connection: psycopg.Connection, name: str) -> None:
    with connection.transaction():
        # Two members that start at the same time would both create the tables.
        connection.execute("select pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
        exists = connection.execute("select to_regclass('qmgrd.base') is not null").fetchone()
        if exists is None or not exists[0]:
            schema = connection.execute("select to_regnamespace('qmgrd') is null").fetchone()
            if schema is not None and schema[0]:  # It would need rights even if it exists.
                connection.execute("create schema qmgrd")
            connection.execute(_TABLES)
        connection.execute(
            "insert into qmgrd.manager (name, format) values (%s, %s) on conflict do nothing",
            (name, FORMAT),
        )
