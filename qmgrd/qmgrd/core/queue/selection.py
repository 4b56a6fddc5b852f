"""Defines the selection of a get, a consumer or a browse.

An index finds messages by UID, correlation id or group, at a cost that does not depend on the depth
of the queue. A selector examines each message once.
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

# Number of steps of a selector that take as long as reading one row of the store.
ROW_STEPS = 10_000
UID_LEAST_BYTES = 9  # the size of an encoded UID whose origin has one letter


class Selection(NamedTuple):
    """A selection of messages: by an index ``prefix``, by a ``selector``, or all messages."""

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
    """Returns the selection that a request on *queue* describes.

    Args:
        queue: The queue of the request.
        where: A selector, or "".
        correlation_id: A correlation id, or b"".
        group_id: A group id, or b"".
        uid: An encoded UID, or b"".
        number: The number of one member of the group, or 0 for all members.

    Raises:
        RequestError: SELECTOR_INVALID if the selector is not valid. VALUE_INVALID if the request
            combines several ways to select, or a value is not valid.
    """
    if number and not group_id:
        raise RequestError(ErrorCode.VALUE_INVALID, f"number {number} requires a group_id")
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
            ErrorCode.VALUE_INVALID,
            f"{' and '.join(given)} cannot be combined; select by one of them",
        )
    if where:
        return Selection(compiled(where))
    if uid and queue.references is not None:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"{queue.name} is a subscription, which has no index of UIDs; select with where = "
            "\"uid = '...'\", or list the subscriptions that lack the publication",
        )
    if uid and len(uid) < UID_LEAST_BYTES:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"the uid has {len(uid)} bytes, but an encoded UID has at least {UID_LEAST_BYTES}",
        )
    if uid:
        return Selection(prefix=queue.origins.index_key(uid))
    if correlation_id:
        return Selection(prefix=keys.correlation(queue.id, correlation_id))
    if number:
        return Selection(prefix=keys.group(queue.id, group_id, number))
    return Selection(prefix=keys.group(queue.id, group_id, 0)[keys.BEFORE_NUMBER])


def compile_weight(where: str) -> int:
    """Returns the maximum cost of compiling *where*, in rows of the store."""
    return len(where) // 6 + 2 * where.count("%")  # Each % may start another piece of a pattern.


def weight(selector: Selector | None, tx: Transaction, value: bytes) -> int:
    """Returns the cost of examining the message of an entry, in rows of the store.

    The number of rows per turn and per request is limited. Therefore, a costly selector, such as
    one with many LIKE on long strings, examines fewer messages per turn.
    """
    if selector is None:
        return 1
    entry = entries.decode(value)
    envelope_bytes = records.envelope_bytes(entries.front(tx, entry))
    return 1 + selector.steps(entries.record_bytes(entry), envelope_bytes) // ROW_STEPS


@lru_cache(maxsize=256)  # Programs use the same selectors repeatedly.
def compiled(where: str) -> Selector:
    """Returns the compiled selector *where*.

    Raises:
        RequestError: SELECTOR_INVALID if *where* is not a valid selector.
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
    """Returns whether *selector* matches the message under *key*. None matches all messages."""
    if selector is None:
        return True
    priority, arrival = keys.place(key)
    extra = notes.facts_of(notes.read(tx, queue.id, arrival)) if entry.noted else {}
    if entry.shared:
        topic = entries.publication(tx, entry).target
        extra |= {"topic": topic, "subscription": queue.name}
    facts = MessageFacts(record, priority, entry.delivered, entry.failed, entry.put_us, extra)
    if queue.is_transmission:
        # The keys of a transmission queue do not contain a priority.
        facts.priority = facts.head().priority
    return selector.matches(facts.value_of)
