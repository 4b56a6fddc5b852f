"""Messages as arrays: the operation number, then the fields in their order, each within its limits.

Elements beyond those known are ignored and fields that are missing at the end take their default,
so that a message can grow. A number is never used again for something else.
"""

from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.codec import LENGTH_MAX
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.field import (
    NAME,
    SCALAR,
    TEXT,
    U8,
    U16,
    U32,
    U64,
    Check,
    among,
    array,
    binary,
    blobs,
    either,
    exactly,
    flag,
    integer,
    mapping,
    optional,
    row,
    shallow,
    text,
)
from qmgr_protocol.record import GROUP_NUMBER_MAX

ID_END, SEQ_END = 2**32, 2**63  # Ids of requests and streams, and those of messages, are below.
_ID = integer(1, ID_END - 1)
_SEQ = integer(1, SEQ_END - 1)
_BROWSE_ORDER = among(m.PHYSICAL, m.LOGICAL, m.ARRIVAL)
_LEASE = integer(0, m.LEASE_MAX_MS)
_WAIT = integer(0, m.WAIT_MAX_MS)
_COUNT = integer(1, m.GET_MAX_MESSAGES)
_ACTION = integer(m.ACK, m.RENEW)
_DELAY = integer(m.DELAY_OF_QUEUE, m.DELAY_MAX_MS)
_SELECTOR = text(m.SELECTOR_MAX)
_CORRELATION, _GROUP, _UID = binary(64), either(exactly(0), exactly(24)), binary(72)
_EXTRAS = array(LENGTH_MAX, row(U32, mapping(10, text(20), either(binary(65_536), U64))))
_UNIT = _READER = integer(0, ID_END - 1)
_GROUP_ID, _NUMBER, _WORD = exactly(24), integer(0, GROUP_NUMBER_MAX), text(20)
_HANDLES = binary(m.HANDLES_MAX_BYTES, m.HANDLE.size)
_POSITION = optional(row(U8, U64))
_STORE, _SESSION = binary(16), binary(64)
_LONG = text(4096)
_ATTRIBUTES = mapping(100, text(200), either(array(100, SCALAR), SCALAR))
_REFUSED = array(LENGTH_MAX, row(_SEQ, U32, _LONG))
_STAMPED = array(LENGTH_MAX, row(_SEQ, U64, _SEQ))
_HELD = array(m.HELD_RUNS_MAX, row(_SEQ, _SEQ))
_MATCHED = array(LENGTH_MAX, row(_SEQ, _SEQ, U32))
_EXCEPTIONS = array(LENGTH_MAX, row(_ID, U32, U32))

# operation: (number, class, checks in the order of the fields)
_TABLE: tuple[tuple[int, type[Any], tuple[Check, ...]], ...] = (
    (
        1,
        m.Hello,
        (
            TEXT,
            U32,
            U32,
            TEXT,
            NAME,
            array(100, TEXT),
            _STORE,
            U64,
            TEXT,
            U64,
            TEXT,
            binary(1024),
            _SESSION,
        ),
    ),
    (
        2,
        m.Welcome,
        (
            U32,
            NAME,
            _STORE,
            U64,
            array(100, TEXT),
            TEXT,
            U64,
            U64,
            U64,
            U64,
            U64,
            U64,
            U64,
            _SESSION,
        ),
    ),
    (3, m.Goaway, (U32, _LONG, U64)),
    (4, m.Ping, (U64,)),
    (5, m.Pong, (U64,)),
    (6, m.Ok, (_ID, shallow(16))),
    (7, m.Error, (_ID, U32, U8, U64, _LONG)),
    (8, m.Cancel, (_ID,)),
    (9, m.Ended, (_ID, U32, _LONG)),
    (20, m.ProducerOpen, (_ID, exactly(16), flag, U64)),
    (21, m.Put, (_ID, _SEQ, U64, NAME, blobs, _EXTRAS)),
    (22, m.Committed, (_ID, U64, _REFUSED, _STAMPED, _HELD, U64, _MATCHED)),
    (
        23,
        m.Get,
        (
            _ID,
            NAME,
            _COUNT,
            _WAIT,
            _LEASE,
            _SEQ,
            _SELECTOR,
            _CORRELATION,
            _GROUP,
            _UID,
            integer(m.PHYSICAL, m.LOGICAL),
            flag,
            _NUMBER,
            _READER,
        ),
    ),
    (
        24,
        m.Consume,
        (
            _ID,
            NAME,
            U32,
            U64,
            _LEASE,
            _SELECTOR,
            _CORRELATION,
            _GROUP,
            integer(m.PHYSICAL, m.PINNED),
            flag,
            flag,
        ),
    ),
    (25, m.Credit, (_ID, U32, U64)),
    (26, m.Deliver, (_ID, U32, blobs)),
    (
        27,
        m.Settle,
        (
            _ID,
            _ACTION,
            U32,
            _HANDLES,
            _UNIT,
            _DELAY,
            _LEASE,
            text(m.REASON_MAX),
            text(m.REASON_TEXT_MAX),
        ),
    ),
    (28, m.Settled, (_ID, _EXCEPTIONS)),
    (
        29,
        m.Browse,
        (
            _ID,
            NAME,
            _POSITION,
            _COUNT,
            _SEQ,
            _SELECTOR,
            _CORRELATION,
            _GROUP,
            _UID,
            flag,
            _BROWSE_ORDER,
            flag,
        ),
    ),
    (30, m.UnitBegin, (_ID, _ID)),
    (31, m.UnitPut, (_ID, _ID, NAME, blobs)),
    (32, m.UnitCommit, (_ID, _SEQ, U64, _ID, U32, U32)),
    (33, m.UnitBackout, (_ID, _ID, text(m.REASON_MAX), text(m.REASON_TEXT_MAX))),
    (34, m.GroupNew, (_ID,)),
    (35, m.ReaderClose, (_ID, _ID)),
    (40, m.QueueCreate, (_ID, NAME, _ATTRIBUTES)),
    (41, m.QueueDelete, (_ID, NAME, flag)),
    (42, m.QueueList, (_ID, NAME, integer(1, 1_000))),
    (43, m.QueueShow, (_ID, NAME, NAME)),
    (44, m.QueuePurge, (_ID, NAME, _SELECTOR, U64)),
    (45, m.QueueAlter, (_ID, NAME, _ATTRIBUTES)),
    (46, m.QueueMove, (_ID, NAME, NAME, _SELECTOR, U64, U32, flag, U16)),
    (60, m.LinkOpen, (_ID, exactly(24), _SEQ, _SEQ, binary(16), U8, flag, _SEQ)),
    (61, m.LinkCreate, (_ID, NAME, _ATTRIBUTES)),
    (62, m.LinkDelete, (_ID, NAME, flag)),
    (63, m.LinkList, (_ID,)),
    (64, m.LinkShow, (_ID, NAME)),
    (65, m.LinkStart, (_ID, NAME, flag)),
    (66, m.LinkStop, (_ID, NAME)),
    (67, m.Blocked, (_ID, _SEQ, U32, U64, _LONG, U64)),
    (68, m.LinkAlter, (_ID, NAME, _ATTRIBUTES)),
    (69, m.CommitAsk, (_ID,)),
    (70, m.LinkFetch, (_ID, U8, U64, U64, U64, U64)),
    (71, m.LinkAllow, (_ID, NAME, either(exactly(0), exactly(16)))),
    (72, m.LinkDisallow, (_ID, NAME)),
    (80, m.Status, (_ID,)),
    (81, m.Snapshot, (_ID, _LONG, U64)),
    (82, m.ConnectionList, (_ID, U64, integer(1, 1_000))),
    (83, m.ConnectionClose, (_ID, _SEQ)),
    (84, m.AsideList, (_ID, U64, integer(1, 1_000))),
    (85, m.AsideRetry, (_ID, U64)),
    (86, m.AsideDrop, (_ID, U64)),
    (110, m.JobList, (_ID,)),
    (111, m.JobShow, (_ID, _SEQ)),
    (112, m.JobCancel, (_ID, _SEQ)),
    (90, m.TemplateSet, (_ID, NAME, _ATTRIBUTES)),
    (91, m.TemplateDelete, (_ID, NAME)),
    (92, m.TemplateList, (_ID,)),
    (100, m.GroupList, (_ID, NAME, _GROUP, integer(1, 1_000), flag)),
    (101, m.GroupShow, (_ID, NAME, _GROUP_ID, _NUMBER)),
    (102, m.GroupAlter, (_ID, NAME, _GROUP_ID, _WORD, _NUMBER, U64)),
    (117, m.Subscribe, (_ID, NAME, NAME, _SELECTOR, _ATTRIBUTES, flag)),
    (118, m.Unsubscribe, (_ID, NAME)),
    (119, m.SubscriptionList, (_ID, NAME, integer(1, 1_000), NAME)),
    (120, m.SubscriptionHealthy, (_ID, NAME)),
    (121, m.TopicSet, (_ID, NAME, _ATTRIBUTES)),
    (122, m.TopicDelete, (_ID, NAME, flag)),
    (123, m.TopicList, (_ID, NAME, integer(1, 1_000))),
    (124, m.TopicShow, (_ID, NAME)),
    (125, m.TopicLacks, (_ID, _UID)),
    (
        126,
        m.RepublishList,
        (_ID, optional(row(U64, U32)), integer(1, 1_000), _SELECTOR, _UID, NAME),
    ),
    (127, m.Republish, (_ID, flag, _UID, _SELECTOR, array(1_000, NAME), U32, U64)),
    (113, m.HistoryRead, (_ID, integer(0, SEQ_END - 1), integer(0, SEQ_END - 1), U32)),
    (114, m.HistoryShow, (_ID,)),
    (115, m.CursorCommit, (_ID, NAME, integer(0, SEQ_END - 1))),
    (116, m.CursorDelete, (_ID, NAME)),
)

# What an Ok carries, where a client or a link works with it; all else is shown to people.
_REPLIES: dict[type[Any], Check] = {
    m.ProducerOpen: row(_ID, U64, array(LENGTH_MAX, _SEQ), _REFUSED, _STAMPED),
    m.LinkOpen: row(
        _ID, U64, array(LENGTH_MAX, _SEQ), optional(binary(72)), _SEQ, U64, U64, binary(16)
    ),
    m.Consume: row(U32, _LEASE),
    m.UnitPut: row(array(LENGTH_MAX, row(U32, U32, _LONG)), array(LENGTH_MAX, row(U32, U64, U32))),
    m.GroupNew: exactly(24),
}

OPERATIONS: dict[int, type[Any]] = {number: kind for number, kind, _ in _TABLE}
NUMBERS: dict[type[Any], int] = {kind: number for number, kind, _ in _TABLE}


# What most frames of a busy connection hold is tested at once, in half the time that a check for
# each field takes. A quick test may refuse what the checks let pass, never the other way round.
def _is_put(stream: Any, first_id: Any, seen: Any, queue: Any, records: Any) -> bool:
    return (
        type(stream) is type(first_id) is type(seen) is int
        and 0 < stream < ID_END
        and 0 < first_id < SEQ_END
        and 0 <= seen < SEQ_END
        and type(queue) is str
        and len(queue) <= 200
        and not blobs(records)
    )


def _is_committed(stream: Any, commit_id: Any, refused: Any, stamped: Any) -> bool:
    return (
        type(stream) is type(commit_id) is int
        and 0 < stream < ID_END
        and 0 <= commit_id < SEQ_END
        and refused == []
        and (stamped == [] or not _STAMPED(stamped))
    )


def _is_credit(request_id: Any, messages: Any, size_bytes: Any) -> bool:
    return (
        type(request_id) is type(messages) is type(size_bytes) is int
        and 0 < request_id < ID_END
        and 0 <= messages < 2**32
        and 0 <= size_bytes < 2**63
    )


def _is_deliver(request_id: Any, queue_id: Any, items: Any) -> bool:
    return (
        type(request_id) is type(queue_id) is int
        and 0 < request_id < ID_END
        and 0 <= queue_id < 2**32
        and not blobs(items)
    )


def _is_settle(settle_id: Any, action: Any, queue_id: Any, handles: Any) -> bool:
    return (
        type(settle_id) is type(action) is type(queue_id) is int
        and 0 < settle_id < ID_END
        and m.ACK <= action <= m.RENEW
        and 0 <= queue_id < 2**32
        and not _HANDLES(handles)
    )


def _not_known(*fields: Any) -> bool:
    del fields
    return False


QUICK: dict[type[Any], Callable[..., bool]] = {
    m.Put: _is_put,
    m.Committed: _is_committed,
    m.Credit: _is_credit,
    m.Deliver: _is_deliver,
    m.Settle: _is_settle,
}
# What a busy connection seldom says of them is left out at the end, on the wire and in the test.
_LEFT_OUT: dict[type[Any], tuple[Any, ...]] = {
    kind: tuple(kind._field_defaults[field] for field in fields)
    for kind, fields in (
        (m.Hello, m.Hello._fields[12:]),
        (m.Welcome, m.Welcome._fields[13:]),
        (m.Put, m.Put._fields[5:]),
        (m.Committed, m.Committed._fields[4:]),
        (m.Settle, m.Settle._fields[4:]),
        (m.Get, m.Get._fields[10:]),
        (m.Consume, m.Consume._fields[8:]),
        (m.Browse, m.Browse._fields[10:]),
    )
}


def written_always(kind: type[Any]) -> int:
    """Return how many fields of *kind* are written even if all behind them have their defaults."""
    return len(kind._fields) - len(_LEFT_OUT.get(kind, ()))


_PARSERS: dict[
    int, tuple[type[Any], tuple[Check, ...], int, Callable[..., bool], tuple[Any, ...]]
] = {
    number: (
        kind,
        checks,
        written_always(kind),
        QUICK.get(kind, _not_known),
        _LEFT_OUT.get(kind, ()),
    )
    for number, kind, checks in _TABLE
}


def parse(array_: list[Any]) -> m.Message:
    """Return the message that a decoded frame holds.

    Raises:
        OperationUnknown: the peer may be newer; its request is refused, the connection stays.
        FieldInvalid: a field is missing, of the wrong type or out of range.
    """
    found = _PARSERS.get(array_[0])
    if found is None:
        second = array_[1] if len(array_) > 1 else None
        raise m.OperationUnknown(array_[0], second if type(second) is int and second > 0 else 0)
    kind, checks, quick_count, is_valid, rest = found
    fields = array_[1 : len(checks) + 1]
    if len(fields) == quick_count and is_valid(*fields):
        return tuple.__new__(kind, (*fields, *rest))  # As kind(*fields), in half the time.
    return parse_by_field(kind, checks, fields)


def parse_by_field(kind: type[Any], checks: tuple[Check, ...], fields: list[Any]) -> m.Message:
    """Return the message of *kind* whose first *fields* are given.

    Raises:
        FieldInvalid: as :func:`parse`.
    """
    for index, value in enumerate(fields):
        if why := checks[index](value):
            raise FieldInvalid(kind.__name__, kind._fields[index], why)
    try:
        return kind(*fields)
    except TypeError:
        missing = kind._fields[len(fields)]
        raise FieldInvalid(kind.__name__, missing, "is missing") from None


def checks_of(kind: type[Any]) -> tuple[Check, ...]:
    """Return the checks of the fields of *kind*."""
    return _PARSERS[NUMBERS[kind]][1]


def check_reply(kind: type[Any], value: Any) -> None:
    """Check the value of the Ok that answers a ProducerOpen, a LinkOpen or a Consume.

    Raises:
        FieldInvalid: it is not what section 11 of PROTOCOL.md says.
    """
    if why := _REPLIES[kind](value):
        raise FieldInvalid("Ok", f"value of {kind.__name__}", why)


def reply_check_of(kind: type[Any]) -> Check | None:
    """Return the check of the value of the Ok that answers *kind*, or None where it has none."""
    return _REPLIES.get(kind)


def to_array(message: m.Message) -> tuple[Any, ...]:
    """Return *message* as the array that a frame carries."""
    kind = type(message)
    rest = _LEFT_OUT.get(kind)
    if rest is not None and message[-len(rest) :] == rest:
        return (NUMBERS[kind], *message[: -len(rest)])
    return (NUMBERS[kind], *message)
