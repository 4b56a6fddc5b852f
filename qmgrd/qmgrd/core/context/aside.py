"""Sets aside invalid rows, and work that failed twice, so that no later turn processes them.

Each item is a stored row with a number. The item states the work, the reason and the time. If an
invalid row was found at the start or in the schedule, the row is moved into the item unchanged. An
operator may restore the row (*retry*) or delete it (*drop*). For other work the item is a mark: the
daemon skips the work as long as the mark exists.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.limits.work import WorkId

if TYPE_CHECKING:
    from qmgrd.core.context.context import Context

ITEMS_MAX = 10_000
WHY_MAX = 500  # maximum length of a reason, in characters
# Kinds of items that contain a moved row. The key of the work is the key of the row.
MOVED = ("row", "due")


class Item(NamedTuple):
    """Work or a row that was set aside."""

    number: int
    work: WorkId
    what: str  # the description of the work for operators
    why: str
    us: int  # the wall clock time, in microseconds, when the item was set aside
    row: bytes = b""  # the value that was stored under the key, if the kind is in MOVED

    def describe(self) -> dict[str, Any]:
        """Returns the fields of the item for users and scripts."""
        return {
            "number": self.number,
            "kind": self.work.kind,
            "key": self.work.shown_key,
            "what": self.what,
            "why": self.why,
            "set_aside_us": self.us,
            "bytes": len(self.row),
        }


class Aside:
    """All items that are set aside, oldest first.

    Invariant: ``works`` maps each work in ``items`` to the number of its latest item.
    """

    def __init__(self) -> None:
        self.items: dict[int, Item] = {}
        self.works: dict[WorkId, int] = {}
        self._next = 1

    def load(self, context: "Context") -> None:
        """Reads all items. Deletes and logs each item that cannot be decoded.

        Raises:
            RowDamaged: The checksum of an item is wrong.
        """
        for key, row in list(rows.scan(context.tx, keys.SPACE_ASIDE)):
            number = int.from_bytes(key[keys.REST], "big")
            self._next = max(self._next, number + 1)
            try:
                self._keep(item_of(number, unpack(row)))
            except rows.NONSENSE as error:
                context.tx.delete(key)
                context.note(
                    "error",
                    "deleted an unreadable item of what is set aside",
                    number=number,
                    why=str(error),
                )

    def _keep(self, item: Item) -> None:
        self.items[item.number] = item
        self.works[item.work] = item.number

    def add(self, context: "Context", work: WorkId, what: str, why: str, row: bytes = b"") -> None:
        """Sets *work* aside and reports the item.

        Deletes the oldest item if more than ITEMS_MAX exist.
        """
        if work in self.works and not row:
            return
        item = Item(self._next, work, what, why[:WHY_MAX], context.now.wall_us, row)
        self._next += 1
        self._keep(item)
        stored = pack([work.kind, work.key, what, item.why, item.us, row])
        rows.put(context.tx, keys.aside(item.number), stored)
        context.wrote = True
        facts: dict[str, Any] = {
            "number": item.number,
            "kind": work.kind,
            "what": what,
            "why": item.why,
        }
        context.note("error", "set aside", **facts)
        context.event("set aside", **facts)
        while len(self.items) > ITEMS_MAX:
            oldest = next(iter(self.items.values()))
            self.remove(context, oldest.number)
            context.note(
                "error",
                "deleted the oldest item of what is set aside",
                number=oldest.number,
                what=oldest.what,
                limit=ITEMS_MAX,
            )

    def move(self, context: "Context", kind: str, key: bytes, why: str) -> None:
        """Moves the row under *key*, if it exists, into an item."""
        what, value = rows.name_of(key), context.tx.get(key)
        if value is None:
            context.note("error", "went on without a row", what=what, why=why)
            return
        context.tx.delete(key)
        self.add(context, WorkId(kind, key), what, why, value)

    @contextmanager
    def guard(self, context: "Context", key: bytes) -> Iterator[None]:
        """Sets aside the row under *key* if the block finds that the row is invalid.

        Raises:
            RowDamaged: The checksum of a row is wrong, so the store is damaged.
        """
        try:
            yield
        except rows.RowInvalid as error:
            self.move(context, "row", key, error.why)
        except rows.RowDamaged:
            raise
        except rows.NONSENSE as error:
            text = error.text if isinstance(error, RequestError) else str(error)
            self.move(context, "row", key, f"{type(error).__name__}: {text}")

    def find(self, number: int) -> Item:
        """Returns the item with *number*.

        Raises:
            RequestError: ASIDE_UNKNOWN if the item does not exist.
        """
        found = self.items.get(number)
        if found is None:
            raise RequestError(
                ErrorCode.ASIDE_UNKNOWN,
                f"item {number} is not set aside: it never existed, or was deleted",
            )
        return found

    def remove(self, context: "Context", number: int) -> Item:
        """Deletes the item with *number*, and returns the item."""
        item = self.items.pop(number)
        if self.works.get(item.work) == number:
            del self.works[item.work]
        context.tx.delete(keys.aside(number))
        context.wrote = True
        return item

    def restore(self, context: "Context", number: int) -> Item:
        """Deletes an item, restores its row, and returns the item.

        Raises:
            RequestError: ASIDE_UNKNOWN if the item does not exist. VALUE_INVALID if the key of the
                row is in use.
        """
        item = self.find(number)
        key = item.work.key
        if item.work.kind in MOVED and isinstance(key, bytes):
            if context.tx.get(key) is not None:
                raise RequestError(
                    ErrorCode.VALUE_INVALID,
                    f"item {number} cannot be restored because {item.what} exists again; delete "
                    "the existing one, or drop the item",
                )
            context.tx.put(key, item.row)
        return self.remove(context, number)


def item_of(number: int, row: Any) -> Item:
    """Returns the item in a stored *row*.

    Raises:
        ValueError, TypeError: The row is invalid.
    """
    kind, key, what, why, us, moved = row
    if [type(x) for x in (kind, what, why, us, moved)] != [str, str, str, int, bytes] or type(
        key
    ) not in (bytes, str, int):
        raise ValueError("a field has the wrong type")
    return Item(number, WorkId(kind, key), what, why, us, moved)


def queue_ids(aside: Aside) -> set[int]:
    """Returns the readable ids of queues whose definitions are set aside."""
    return {queue_id_of(item) for item in aside.items.values()} - {0}


def queue_id_of(item: Item) -> int:
    """Returns the queue id in the definition that *item* contains, or 0 if it contains none."""
    key = item.work.key
    if not (item.row and isinstance(key, bytes) and key[keys.SPACE] == keys.SPACE_QUEUE):
        return 0
    try:
        queue_id = unpack(rows.unseal(key, item.row))["queue_id"]
    except rows.NONSENSE:
        return 0
    is_one = type(queue_id) is int and 0 < queue_id < keys.PUBLICATIONS_ID
    return queue_id if is_one else 0


def has_definitions(aside: Aside) -> bool:
    """Returns whether a row that defines or removes a queue or a link is set aside."""
    spaces = (keys.SPACE_QUEUE, keys.SPACE_LINK, keys.SPACE_JOB, keys.SPACE_COUNTERS)
    found = (item.work.key for item in aside.items.values() if item.row)
    return any(isinstance(key, bytes) and key[keys.SPACE] in spaces for key in found)
