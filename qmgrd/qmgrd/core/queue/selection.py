"""Defines what a get, a consumer or a browse selects.

An index finds messages by UID, correlation id or group, at a cost that does not depend on the depth
of the queue. A selector looks at each message once.
"""

from functools import lru_cache
from typing import NamedTuple

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue import notes
from qmgrd.core.queue.facts import MessageFacts
from qmgrd.core.queue.queue import Queue
from qmgrd.core.selector.selector import Selector, compile_selector

ROW_STEPS = 10_000  # the steps of a selector that take as long as one row of the store
UID_LEAST_BYTES = 9  # an origin of one letter, and the timestamp


class Selection(NamedTuple):
    """Messages under a ``prefix`` of an index, or those that ``selector`` matches, or all."""

    selector: Selector | None = None
    prefix: bytes = b""


ALL = Selection()


def selection(
    queue: Queue,
    where: str,
    correlation_id: bytes,
    group_id: bytes,
    uid: bytes = b"",
    number: int = 0,
) -> Selection:
    """Returns the selection of a request on *queue*; with *number*, of one member of a group.

    Raises:
        RequestError: SELECTOR_INVALID; VALUE_INVALID: it selects in more than one way.
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
    if uid and queue.references is not None:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"{queue.name} is a subscription, which has no index of UIDs: select with where = "
            "\"uid = '...'\", or ask which subscriptions lack a publication",
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
    """Returns the most rows of the store that compiling *where* counts for."""
    return len(where) // 6 + 2 * where.count("%")  # Each may begin a piece to search for.


def weight(selector: Selector | None, tx: Transaction, value: bytes) -> int:
    """Returns how many rows of the store a look at the message of an entry counts for.

    Rows bound a turn, and the looks of one request. So if a look takes long, as with many LIKE on
    long texts, fewer fit in a turn.
    """
    if selector is None:
        return 1
    entry = entries.decode(value)
    envelope_bytes = records.envelope_bytes(entries.front(tx, entry))
    return 1 + selector.steps(entries.record_bytes(entry), envelope_bytes) // ROW_STEPS


@lru_cache(maxsize=256)  # Programs use the same selectors again and again.
def compiled(where: str) -> Selector:
    """Returns the compiled selector *where*.

    Raises:
        RequestError: SELECTOR_INVALID.
    """
    return compile_selector(where)


def is_selected(
    selector: Selector | None,
    queue: Queue,
    tx: Transaction,
    key: bytes,
    entry: entries.Entry,
    record: bytes,
) -> bool:
    """Returns whether *selector* matches the message under *key*; None matches all."""
    if selector is None:
        return True
    priority, arrival = keys.place(key)
    extra = notes.facts_of(notes.read(tx, queue.id, arrival)) if entry.noted else {}
    if entry.shared:
        topic = entries.publication(tx, entry).target
        extra |= {"topic": topic, "subscription": queue.name}
    facts = MessageFacts(record, priority, entry.delivered, entry.failed, entry.put_us, extra)
    if queue.is_transmission:
        facts.priority = facts.head().priority  # Its key has no priority there.
    return selector.matches(facts.value_of)
