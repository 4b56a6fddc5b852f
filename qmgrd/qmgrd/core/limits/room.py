"""The free space that the store has for a turn, and how it is divided.

    ├── used ──┬─────────────┬──────────────┬──────────────────────────┤ end of the map
            puts stop   publications   operators stop   acks, deletions and the
            (the mark)      stop                        daemon's own rows continue

1. Puts and all other requests that add rows (growth.py) stop at ``store.high_water_percent`` of the
   map.
2. The fan-out of accepted publications stops when a quarter of the rest is used.
3. Operators' requests that make room, such as a purge, stop when half of the rest is used.
4. The remainder is for acks, deletions and the daemon's own rows. None of these operations adds
   more than it removes.

LMDB copies a page that changes, and frees the old page two turns later. Therefore, even a deletion
needs room. In a map with few free pages, a turn does less work (``turn_rows``). The last arrival,
and a slice of each kind of work, may need two pages for each row that they change.
"""

from typing import NamedTuple

from qmgr_config.model import Config, StoreConfig
from qmgr_protocol import record as records
from qmgrd.core.layout.kv import Space

PAGE_BYTES = 4_096
ROWS_MIN, SLICE_MIN = 50, 12  # the minimum of turn_rows and slice_rows when few pages are free
# Each SHARE is a divisor of a number of pages or rows.
TURN_SHARE = 16  # free pages per row of a turn
SLICE_SHARE = 4  # rows of a turn per message in a slice of work, because a message has many rows
PUT_SHARE = 4  # free pages per page that puts may change in indexes in one turn
UNIT_SHARE = 4  # pages above the mark per row of one commit
SETTLE_SHARE = 32  # pages above the mark per message in one piece of a settle
DISK_LEAST_BYTES = 32 * 1024 * 1024  # minimum free disk space, because deletions need pages
MAP_SHARE = 8  # bytes of a small map per byte of required free disk space
UNBOUNDED = 1 << 40
ADDITIONS = "requests that add rows"  # the name of operators' requests in error messages
# The bytes of an empty expiry, correlation id length and group flags in a record.
_NOTHING = bytes(10)
MAP_LEAST_BYTES = 16 * 1024 * 1024  # the smallest map that the tests cover


class TurnRoom(NamedTuple):
    """The room of one turn."""

    why_full: str  # the reason for refusing puts, or ""
    why_operators_wait: str  # the reason for refusing requests of operators, or ""
    put_bytes: int  # the number of bytes that puts may add
    operator_bytes: int  # the number of bytes that requests of operators may add
    is_cramped: bool  # whether the fan-out of publications waits
    put_pages: int  # the number of pages that puts may change in indexes
    turn_rows: int
    slice_rows: int


def put_limit_bytes(store: StoreConfig) -> int:
    """Returns the number of used bytes of the map at which puts are refused."""
    return store.map_bytes * store.high_water_percent // 100


def pages_kept(store: StoreConfig) -> int:
    """Returns the number of pages of the map above the mark."""
    return (store.map_bytes - put_limit_bytes(store)) // PAGE_BYTES


def settle_handles(store: StoreConfig) -> int:
    """Returns the maximum number of messages in one piece of a settle."""
    return max(pages_kept(store) // SETTLE_SHARE, 1)


def unit_rows(config: Config) -> int:
    """Returns the maximum number of rows of a unit of work, because a single turn commits them."""
    return min(config.unit.rows_max, max(pages_kept(config.store) // UNIT_SHARE, SLICE_MIN))


def is_in_sequence(record: bytes) -> bool:
    """Returns whether a put of *record* changes only pages that the previous put also changed.

    A put does so if the record has no UID, correlation id, group, expiry or delay.
    """
    return (
        record[records.ORIGIN_LENGTH] == b"\0"
        and record[records.EXPIRY_TO_GROUP_FLAGS] == _NOTHING
        and not record[records.FLAGS_AT] & records.FLAG_DELAYED
    )


class Marks(NamedTuple):
    """The marks at which requests stop, computed once for a map."""

    map_bytes: int
    puts: int  # the number of used bytes of the map at which puts stop
    publications: int  # the number of used bytes of the map at which publications stop
    operators: int  # the number of used bytes of the map at which requests of operators stop
    disk_least_bytes: int  # the minimum free disk space for puts
    rows_max: int  # the maximum number of rows in a turn
    plenty_pages: int  # the number of free pages above which rows_max is the only limit of a turn
    # The free bytes above all limits of puts with which turns share a look at the free space.
    shared_bytes: int


def marks_of(config: Config, map_bytes: int) -> Marks:
    """Returns the marks of a map of *map_bytes*."""
    store, rows_max = config.store, config.limits.turn_rows
    puts = map_bytes * store.high_water_percent // 100
    kept = map_bytes - puts
    least = max(store.free_disk_min_bytes, min(DISK_LEAST_BYTES, map_bytes // MAP_SHARE))
    plenty_pages = rows_max * TURN_SHARE
    # For two of the longest turns. A put reserves twice its bytes.
    shared_bytes = 2 * (plenty_pages * PAGE_BYTES + 2 * config.limits.turn_bytes)
    return Marks(
        map_bytes,
        puts,
        puts + kept // 4,
        puts + kept // 2,
        least,
        rows_max,
        plenty_pages,
        shared_bytes,
    )


def room_of(marks: Marks, space: Space) -> TurnRoom:
    """Returns the room for a turn in a store with the given *space*."""
    used = space.used_bytes
    disk_bytes = space.disk_free_bytes + space.file_free_bytes
    free_pages = (marks.map_bytes - used) // PAGE_BYTES
    most, least = marks.rows_max, marks.disk_least_bytes
    puts, operators = marks.puts - used, marks.operators - used
    if puts > 0 and disk_bytes >= least and free_pages >= marks.plenty_pages:
        return TurnRoom("", "", puts, operators, False, free_pages // PUT_SHARE, most, most)
    turn_rows = min(most, max(free_pages // TURN_SHARE, ROWS_MIN))
    return TurnRoom(
        _why(space, marks.puts, disk_bytes, least, "puts"),
        _why(space, marks.operators, disk_bytes, least // 4, ADDITIONS),
        puts,
        operators,
        used >= marks.publications or disk_bytes < least // 2,
        _put_pages(used // PAGE_BYTES, free_pages),
        turn_rows,
        most if turn_rows == most else max(turn_rows // SLICE_SHARE, SLICE_MIN),
    )


def is_shareable(marks: Marks, space: Space) -> bool:
    """Returns whether several turns may share *space*, as puts/store_room.py describes."""
    disk_bytes = space.disk_free_bytes + space.file_free_bytes
    return (
        marks.puts - space.used_bytes >= marks.shared_bytes
        and disk_bytes - marks.disk_least_bytes >= marks.shared_bytes
    )


def _put_pages(used_pages: int, free_pages: int) -> int:
    """Returns the number of pages that puts may change in indexes."""
    share = free_pages // PUT_SHARE
    return share if used_pages > share else UNBOUNDED


def _why(space: Space, mark: int, disk_bytes: int, least_bytes: int, what: str) -> str:
    """Returns the reason for refusing *what*, or ""."""
    if space.used_bytes >= mark:
        held = f" ({space.held_bytes} for a snapshot)" if space.held_bytes else ""
        return (
            f"the store uses {space.used_bytes} bytes of its map{held}, and {what} stop at {mark}; "
            "consume messages, or raise store.map_bytes"
        )
    if disk_bytes < least_bytes:
        return (
            f"the disk has {space.disk_free_bytes} bytes free and the store's file "
            f"{space.file_free_bytes}, and {what} stop below {least_bytes} "
            "(store.free_disk_min_bytes)"
        )
    return ""
