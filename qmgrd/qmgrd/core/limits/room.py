"""The room that the store has for a turn, and how it is divided.

    ├── used ──┬─────────────┬──────────────┬──────────────────────────┤ end of the map
            puts stop   publications   operators stop   acks, deletions and the
            (the mark)      stop                        daemon's own rows go on

1. Puts, and all other requests that add rows (growth.py), stop at ``store.high_water_percent`` of
   the map.
2. Accepted publications go out until a quarter of the rest is used.
3. Requests with which operators make room, such as a purge, stop when half of the rest is used.
4. The remainder is for acks and deletions, and for the daemon's own rows. None of these adds more
   than it removes.

LMDB copies a page that changes, and the old page is free two turns later. So a deletion needs
room, too. In a map with few free pages a turn does less (``turn_rows``): a slice of each kind of
work, and the last arrival, need a page for each row that they change, twice.
"""

from typing import NamedTuple

from qmgr_config.model import Config, StoreConfig
from qmgr_protocol import record as records
from qmgrd.core.layout.kv import Space

PAGE_BYTES = 4_096
ROWS_MIN, SLICE_MIN = 50, 12  # even if few pages are free
TURN_SHARE = 16  # of the free pages: the rows of a turn
SLICE_SHARE = 4  # of these rows: messages in one slice of work, each of which has many rows
PUT_SHARE = 4  # of the free pages: those that the puts of a turn may change at random places
UNIT_SHARE = 4  # of the pages above the mark: the rows of one commit
SETTLE_SHARE = 32  # of the pages above the mark: messages in one piece of a settle
DISK_LEAST_BYTES = 32 * 1024 * 1024  # kept with any configuration, as deletions need pages, too
MAP_SHARE = 8  # A small store needs only this part of its map on the disk.
UNBOUNDED = 1 << 40
ADDITIONS = "requests that add rows"  # of operators, in texts
_NOTHING = bytes(10)  # expiry, length of the correlation id, flags of the group: of a record
MAP_LEAST_BYTES = 16 * 1024 * 1024  # Tests do not show that a smaller map survives everything.


class TurnRoom(NamedTuple):
    """The room of one turn."""

    why_full: str  # why puts are refused, or nothing
    why_operators_wait: str  # why requests of operators are refused, or nothing
    put_bytes: int  # what puts may add
    operator_bytes: int  # what requests of operators may add
    is_cramped: bool  # whether publications wait
    put_pages: int  # that puts may change at random places
    turn_rows: int
    slice_rows: int


def put_limit_bytes(store: StoreConfig) -> int:
    """Returns how many bytes of the map may be used before puts are refused."""
    return store.map_bytes * store.high_water_percent // 100


def pages_kept(store: StoreConfig) -> int:
    """Returns how many pages the map has above the mark."""
    return (store.map_bytes - put_limit_bytes(store)) // PAGE_BYTES


def settle_handles(store: StoreConfig) -> int:
    """Returns how many messages a piece of a settle may name."""
    return max(pages_kept(store) // SETTLE_SHARE, 1)


def unit_rows(config: Config) -> int:
    """Returns how many rows a commit of a unit of work may write, as it is one turn."""
    return min(config.unit.rows_max, max(pages_kept(config.store) // UNIT_SHARE, SLICE_MIN))


def is_in_sequence(record: bytes) -> bool:
    """Returns whether a put of *record* only changes pages that the previous put changed.

    It does if the record has no UID, correlation id, group, expiry or delay.
    """
    return (
        record[records.ORIGIN_LENGTH] == b"\0"
        and record[records.EXPIRY_TO_GROUP_FLAGS] == _NOTHING
        and not record[records.FLAGS_AT] & records.FLAG_DELAYED
    )


class Marks(NamedTuple):
    """The marks at which requests stop, computed once for a map."""

    map_bytes: int
    puts: int  # bytes of the map in use
    publications: int
    operators: int
    disk_least_bytes: int  # free on the disk, for puts
    rows_max: int  # of a turn
    plenty_pages: int  # free pages with which a turn has no further limit


def marks_of(config: Config, map_bytes: int) -> Marks:
    """Returns the marks of a map of that size."""
    store, rows_max = config.store, config.limits.turn_rows
    puts = map_bytes * store.high_water_percent // 100
    kept = map_bytes - puts
    least = max(store.free_disk_min_bytes, min(DISK_LEAST_BYTES, map_bytes // MAP_SHARE))
    return Marks(
        map_bytes, puts, puts + kept // 4, puts + kept // 2, least, rows_max, rows_max * TURN_SHARE
    )


def room_of(marks: Marks, space: Space) -> TurnRoom:
    """Returns the room in a store that has so much *space*."""
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


def _put_pages(used_pages: int, free_pages: int) -> int:
    """Returns how many pages puts at random places may change, at most the free ones."""
    share = free_pages // PUT_SHARE
    return share if used_pages > share else UNBOUNDED


def _why(space: Space, mark: int, disk_bytes: int, least_bytes: int, what: str) -> str:
    """Returns why *what* is refused, or nothing."""
    if space.used_bytes >= mark:
        held = f" ({space.held_bytes} for a snapshot)" if space.held_bytes else ""
        return (
            f"the store uses {space.used_bytes} bytes of its map{held}, {what} stop at {mark}; "
            "get messages, or raise store.map_bytes"
        )
    if disk_bytes < least_bytes:
        return (
            f"the disk has {space.disk_free_bytes} bytes free and the store's file "
            f"{space.file_free_bytes}, {what} stop below {least_bytes} "
            "(store.free_disk_min_bytes)"
        )
    return ""
