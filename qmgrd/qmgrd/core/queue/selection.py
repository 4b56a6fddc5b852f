"""What a get, a consumer or a browse selects: by UID, correlation id or group through an index, at
a cost that does not depend on depth; or by a selector, which looks at each message once.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import notes
from qmgrd.core.queue.facts import Facts
from qmgrd.core.selector.selector import Selector, compile_selector

if TYPE_CHECKING:
    from qmgrd.core.queue.queue import Queue

ROW_STEPS = 10_000  # the time that a row of the store takes, all in all, in steps of a selector
UID_LEAST_BYTES = 9  # an origin of one letter, and the timestamp


class Selection(NamedTuple):
    """What is wanted: what an index has under ``prefix``, or what ``selector`` matches, or all."""

    selector: Selector | None = None
    prefix: bytes = b""


ALL = Selection()


def selection(
    queue: "Queue",
    where: str,
    correlation_id: bytes,
    group_id: bytes,
    uid: bytes = b"",
    number: int = 0,
) -> Selection:
    """Return what a request selects on *queue*; with *number* one member of a group.

    Raises:
        RequestError: SELECTOR_INVALID; VALUE_INVALID, more than one way to select is given.
    """
    if number and not group_id:
        raise RequestError(ErrorCode.VALUE_INVALID, f"number {number} is of no group: say which")
    if not (where or correlation_id or group_id or uid):
        return ALL
    given = [
        name
        for name, value in (
            ("where", where),
            ("correlation_id", correlation_id),
            ("group_id", group_id),
            ("uid", uid),
        )
        if value
    ]
    if len(given) > 1:
        raise RequestError(
            ErrorCode.VALUE_INVALID, f"select by one of {' and '.join(given)}, not by both"
        )
    if where:
        return Selection(compiled(where))
    if uid and queue.holders is not None:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"{queue.name} is a subscription, which has no index of UIDs: select with where = "
            "\"uid = '...'\", or ask which subscriptions lack a publication: qmctl topic who-lacks",
        )
    if uid and len(uid) < UID_LEAST_BYTES:
        raise RequestError(ErrorCode.VALUE_INVALID, f"uid: {len(uid)} bytes are no encoded UID")
    if uid:
        return Selection(prefix=queue.origins.index_key(uid))
    if correlation_id:
        return Selection(prefix=keys.correlation(queue.id, correlation_id))
    if number:
        return Selection(prefix=keys.group(queue.id, group_id, number))
    return Selection(prefix=keys.group(queue.id, group_id, 0)[:-4])


def compile_weight(where: str) -> int:
    """Return for how many rows of the store compiling *where* counts, at worst."""
    return len(where) // 6 + 2 * where.count("%")  # which may begin pieces to search


def weight(selector: Selector | None, tx: Transaction, value: bytes) -> int:
    """Return for how many rows of the store a look at the message of an entry counts.

    What is to be looked at in one go is bounded by rows, as is a turn. So where a look takes long,
    as with many LIKE on long texts, there are fewer of them.
    """
    if selector is None:
        return 1
    entry = entries.decode(value)
    envelope_bytes = records.envelope_bytes(entries.front(tx, entry))
    return 1 + selector.steps(entries.record_bytes(entry), envelope_bytes) // ROW_STEPS


@lru_cache(maxsize=256)  # Compiling is pure, and programs ask the same again and again.
def compiled(where: str) -> Selector:
    """Return the selector that *where* is.

    Raises:
        RequestError: SELECTOR_INVALID.
    """
    return compile_selector(where)


def is_selected(
    selector: Selector | None,
    queue: "Queue",
    tx: Transaction,
    key: bytes,
    entry: entries.Entry,
    record: bytes,
) -> bool:
    """Return whether the message under *key* is one that *selector* matches; None matches all."""
    if selector is None:
        return True
    priority, arrival = keys.place(key)
    extra = notes.facts_of(notes.read(tx, queue.id, arrival)) if entry.noted else {}
    if entry.shared:
        topic = entries.publication(tx, entry).target
        extra |= {"topic": topic, "subscription": queue.name}
    facts = Facts(record, priority, entry.delivered, entry.failed, entry.put_us, extra)
    if queue.is_transmission:
        facts.priority = facts.head().priority  # Where it lies they are in the order of ids.
    return selector.matches(facts.value_of)
