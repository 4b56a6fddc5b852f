"""The table of message groups: the present, consumed and missing messages of each group."""

from collections.abc import Iterable, Iterator

from qmgr_protocol.errors import name_of
from qmgr_tables.options import Options
from qmgr_tables.table import DAMAGE, OF_QUEUE, QUEUES, SNAPSHOT, TIMES, flags, longs, texts, times
from qmgr_tables.tables.small_table import Row, table, time_us, unsealed, wall_us
from qmgrd.core.layout import keys
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.snapshot.finder import QueueInfo, StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction

RUNS_SHOWN_MAX = 100

COLUMNS = (
    *texts(
        ("queue", "the queue of the group"),
        ("group_id", "the id of the group, in hexadecimal"),
        (
            "state",
            "open (the last message is unknown), complete (no message is missing), gap, "
            "paused, or parked (a message failed)",
        ),
    ),
    *longs(
        ("present", "the number of messages of the group on the queue"),
        ("ready", "the number of present messages that are available or leased"),
        ("delayed", "the number of present messages that are not yet available"),
        ("left", "the number of messages that left permanently: consumed, purged or moved"),
        ("missing", "the number of messages missing between the next and the highest number"),
        ("next_number", "the next number of the group, whether or not its message is present"),
        ("last_number", "the number of the last message; null while it is unknown"),
        ("highest_number", "the highest number that ever arrived"),
    ),
    *flags(
        ("complete", "whether all messages that have not left are present, up to the last"),
        ("paused", "whether an operator paused the group"),
        ("closed", "whether an operator closed the group, so no more messages are expected"),
    ),
    *texts(
        ("present_numbers", "the numbers of present messages, such as 4-9, 12; up to 100 ranges"),
        ("left_numbers", "the numbers of messages that left, in the same format"),
    ),
    *longs(("parked_number", "the number of the failed message, if the group is parked")),
    *texts(("parked_code", "the reason for the failure, such as BACKOUT_THRESHOLD_REACHED")),
    *times(
        ("first_at", "the time at which the first message arrived"),
        (
            "changed_at",
            "the time at which a message last arrived or left, by the queue manager's clock",
        ),
    ),
    *longs(
        ("age_ms", "the time from the arrival of the first message to the snapshot"),
        ("lowest_arrival", "the lowest position that a message of the group ever had"),
    ),
    *DAMAGE,
    *SNAPSHOT,
)


def rows_of(tx: LmdbTransaction, snapshot: StoredSnapshot, options: Options) -> Iterator[Row]:
    """Yields a row for each group of each queue."""
    for queue in snapshot.queues:
        prefix = keys.of_queue(keys.SPACE_GROUP_ROW, queue.id)
        for key, value in tx.scan(prefix, keys.after(prefix)):
            yield _row(tx, snapshot, queue, key, value)


def _row(
    tx: LmdbTransaction, snapshot: StoredSnapshot, queue: QueueInfo, key: bytes, value: bytes
) -> Row:
    group_id = key[keys.GROUP_ID_AT :]
    of: Row = {
        "queue": queue.name,
        "group_id": group_id.hex(),
        "present_numbers": shown(_present(tx, queue.id, group_id)),
    }
    data, damage = unsealed(key, value)
    if damage:
        return of | {"damage": damage}
    group = GroupRow.decode(data)
    left = [(1, group.done)] if group.done else []
    return of | {
        "state": group.state,
        "present": group.count + group.waiting,
        "ready": group.count,
        "delayed": group.waiting,
        "left": group.left_count,
        "missing": max(group.missing, 0),
        "next_number": group.due,
        "last_number": group.last or None,
        "highest_number": group.highest,
        "complete": group.is_rest_here,
        "paused": group.is_paused,
        "closed": group.is_closed,
        "left_numbers": shown([*left, *((run[0], sum(run) - 1) for run in group.ahead)]),
        "parked_number": group.parked_number or None,
        "parked_code": name_of(group.parked_code) if group.parked_code else None,
        "first_at": time_us(group.first_us) if group.first_us else None,
        "changed_at": wall_us(group.changed_ms, snapshot),
        "age_ms": max(snapshot.wall_us - group.first_us, 0) // 1_000 if group.first_us else None,
        "lowest_arrival": group.lowest,
    }


def _present(tx: LmdbTransaction, queue_id: int, group_id: bytes) -> Iterator[tuple[int, int]]:
    """Yields the first and last number of each run of present members. Skips damaged rows."""
    prefix = group_index.prefix_of(queue_id, group_id)
    for key, value in tx.scan(prefix, keys.after(prefix)):
        if group_index.is_sound(key, value):
            run = group_index.decode(key, value)
            yield run.first, run.last


def shown(runs: Iterable[tuple[int, int]]) -> str:
    """Returns *runs* in the form 4-9, 12. Adjacent runs are joined."""
    joined: list[list[int]] = []
    for first, last in runs:
        if joined and joined[-1][1] + 1 == first:
            joined[-1][1] = last
        elif len(joined) == RUNS_SHOWN_MAX:
            return f"{_texts(joined)}, ..."
        else:
            joined.append([first, last])
    return _texts(joined)


def _texts(runs: list[list[int]]) -> str:
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


GROUPS = table(
    "groups",
    "one row per message group of a queue, as long as the queue remembers the group",
    COLUMNS,
    rows_of,
    time="first_at",
    takes=(*QUEUES, *TIMES),
    pushed=OF_QUEUE,
)
