"""The processes that share a journal: each writes a row, and reads those of the others."""

from typing import NamedTuple

import psycopg

from qmgrd.engine.schema import Place

FORGET_S = 7 * 86_400  # A member that was not seen for so long is removed from the list.


class MemberRow(NamedTuple):
    """One process."""

    member: str
    is_active: bool
    record: int  # the last record that it had
    addresses: str
    seen_s: float  # the time since it was last seen, by the clock of the server


def report(
    connection: psycopg.Connection,
    place: Place,
    member: str,
    record: int,
    addresses: str,
    *,
    is_active: bool,
) -> list[MemberRow]:
    """Writes the row of *member*, and returns those of all members, by name.

    Raises:
        psycopg.Error: The connection was lost.
    """
    connection.execute(
        "delete from qmgrd.member where manager = %s and seen < clock_timestamp() - "
        "make_interval(secs => %s)",
        (place.manager, FORGET_S),
    )
    connection.execute(
        "insert into qmgrd.member values (%s, %s, %s, %s, %s, clock_timestamp()) "
        "on conflict (manager, member) do update set is_active = excluded.is_active, "
        "record = excluded.record, addresses = excluded.addresses, seen = excluded.seen",
        (place.manager, member, is_active, record, addresses),
    )
    return members(connection, place)


def members(connection: psycopg.Connection, place: Place) -> list[MemberRow]:
    """Returns the members that were seen in the last week, by name.

    Raises:
        psycopg.Error: The connection was lost.
    """
    rows = connection.execute(
        "select member, is_active, record, addresses, "
        "extract(epoch from clock_timestamp() - seen)::float8 from qmgrd.member "
        "where manager = %s and seen > clock_timestamp() - make_interval(secs => %s) "
        "order by member",
        (place.manager, FORGET_S),
    )
    return [MemberRow(*row) for row in rows]


def leave(connection: psycopg.Connection, place: Place, member: str) -> None:
    """Removes the row of a member that stops.

    Raises:
        psycopg.Error: The connection was lost.
    """
    connection.execute(
        "delete from qmgrd.member where manager = %s and member = %s", (place.manager, member)
    )
