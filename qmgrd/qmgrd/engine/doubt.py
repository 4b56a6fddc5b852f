"""Asks the log whether it has a record whose answer was lost, or was unclear."""

from typing import NamedTuple

import psycopg

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine.fence import read_fence, take_lock
from qmgrd.engine.schema import Place, create_segment, segments
from qmgrd.engine.server import ServerAway, connect, explained
from qmgrd.store.log import Fenced, Record


class Doubt(NamedTuple):
    """The knowledge of an active member about the end of its log."""

    place: Place
    epoch: int
    session: int  # the process of its last session, which may still exist
    segment: int  # the segment that it appends to
    last: int  # the last record that the log must have, or 0 if that is not known
    record: Record | None  # the record that may be in the log


def ask(url: str, doubt: Doubt) -> tuple[psycopg.Connection, bool]:
    """Returns a new connection of the active member, and whether the log has the record.

    If it has not, the record may still be on its way in a session that is not known to be lost. So
    the record must be sent again in the same form: the key of the table admits it once.

    Raises:
        Fenced: Another member is active.
        StoreFailed: The log lacks records that the server has confirmed.
        ServerAway, ServerUnusable: The server does not answer. The doubt remains.
    """
    connection = connect(url, "active")
    try:
        fence = read_fence(connection, doubt.place)
        if fence.epoch != doubt.epoch:
            raise Fenced(f"{fence.member} is active since it took over: {fence.why}")
        take_lock(connection, doubt.place, doubt.epoch, doubt.session)
        _check_end(connection, doubt)
        return connection, _has_record(connection, doubt)
    except psycopg.Error as error:
        connection.close()
        raise explained(error) from error
    except BaseException:
        connection.close()
        raise


def _check_end(connection: psycopg.Connection, doubt: Doubt) -> None:
    """Checks that the log ends with the last record, or the one in doubt. Creates the segment."""
    found = segments(connection, doubt.place)
    end = 0
    for number in reversed(found):
        row = connection.execute(f"select max(record) from {doubt.place.segment(number)}")
        (end,) = row.fetchone() or (0,)
        if end:
            break
    if (end or 0) < doubt.last:
        raise StoreFailed(
            f"the log ends with record {end or 0}, but its server has confirmed record "
            f"{doubt.last}: it lost acknowledged turns, for example in a failover to a server that "
            "was behind"
        )
    if doubt.segment not in found:
        connection.execute(create_segment(doubt.place, doubt.segment))


def _has_record(connection: psycopg.Connection, doubt: Doubt) -> bool:
    if doubt.record is None:
        return False
    number, _, content = doubt.record
    found = connection.execute(
        f"select epoch, content from {doubt.place.segment(doubt.segment)} where record = %s",
        (number,),
        binary=True,
    ).fetchone()
    if found is None:
        return False
    epoch, found_content = found
    if epoch > doubt.epoch:
        raise Fenced(f"another member is active, which has appended record {number}")
    if (epoch, found_content) != (doubt.epoch, content):
        raise StoreFailed(f"record {number} of the log is not the one of this member")
    _await_replicas(connection, doubt.place)
    return True


def _await_replicas(connection: psycopg.Connection, place: Place) -> None:
    """Returns after all that the log has is as durable as the server makes a commit.

    A record may be durable on one server only, because its statement was interrupted while it
    waited for a second one. A further commit waits for all that came before it.
    """
    warnings: list[str] = []
    connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
    connection.execute("update qmgrd.manager set epoch = epoch where number = %s", (place.manager,))
    if warnings:  # This wait was interrupted, too.
        raise ServerAway(f"the server of the journal warns: {warnings[0]}")
