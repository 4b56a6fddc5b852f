"""Messages as arrays: the operation number, then the fields in order, each within its limits.

A reader ignores extra elements, and fields that are missing at the end have their defaults.
Therefore, a later version can add fields to a message. The number of an operation is never reused.
"""

from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.field import ID_END, SEQ_END, Check, blobs
from qmgr_protocol.messages import OPERATIONS

NUMBERS: dict[type[m.Message], int] = {found.kind: found.number for found in OPERATIONS.values()}


def checks_of(kind: type[m.Message]) -> tuple[Check, ...]:
    """Returns the checks of the fields of *kind*."""
    return OPERATIONS[NUMBERS[kind]].checks


def written_always(kind: type[m.Message]) -> int:
    """Returns the number of fields of *kind* that are written even if all others have defaults."""
    return OPERATIONS[NUMBERS[kind]].written_always


_ARE_STAMPED = checks_of(m.Committed)[m.Committed._fields.index("stamped")]
_ARE_HANDLES = checks_of(m.Settle)[m.Settle._fields.index("handles")]


# Each of these tests checks all fields of a frequent message in one expression, which takes half
# the time of one check per field. A quick test may refuse a message that the checks accept, but
# never the reverse.
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
        and (stamped == [] or not _ARE_STAMPED(stamped))
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
        and not _ARE_HANDLES(handles)
    )


def _never_valid(*fields: Any) -> bool:
    del fields
    return False


QUICK: dict[type[m.Message], Callable[..., bool]] = {
    m.Put: _is_put,
    m.Committed: _is_committed,
    m.Credit: _is_credit,
    m.Deliver: _is_deliver,
    m.Settle: _is_settle,
}
_LEFT_OUT: dict[type[m.Message], tuple[Any, ...]] = {
    found.kind: tuple(
        found.kind._field_defaults[name] for name in found.kind._fields[found.written_always :]
    )
    for found in OPERATIONS.values()
    if found.written_always < len(found.checks)
}
_PARSERS: dict[
    int, tuple[type[m.Message], tuple[Check, ...], int, Callable[..., bool], tuple[Any, ...]]
] = {
    found.number: (
        found.kind,
        found.checks,
        found.written_always,
        QUICK.get(found.kind, _never_valid),
        _LEFT_OUT.get(found.kind, ()),
    )
    for found in OPERATIONS.values()
}


def parse(array_: list[Any]) -> m.Message:
    """Returns the message in a decoded frame.

    Raises:
        OperationUnknown: The peer may have a newer version. Its request is refused, and the
            connection stays open.
        FieldInvalid: A field is missing, of the wrong type or out of range.
    """
    found = _PARSERS.get(array_[0])
    if found is None:
        second = array_[1] if len(array_) > 1 else None
        raise m.OperationUnknown(array_[0], second if type(second) is int and second > 0 else 0)
    kind, checks, quick_count, is_valid, rest = found
    fields = array_[1 : len(checks) + 1]
    if len(fields) == quick_count and is_valid(*fields):
        return tuple.__new__(kind, (*fields, *rest))  # the same as kind(*fields), in half the time
    return parse_by_field(kind, checks, fields)


def parse_by_field(
    kind: type[m.Message], checks: tuple[Check, ...], fields: list[Any]
) -> m.Message:
    """Returns the message of *kind* with the values *fields* of its first fields.

    Raises:
        FieldInvalid: A field is missing or invalid, as in :func:`parse`.
    """
    for index, value in enumerate(fields):
        if why := checks[index](value):
            raise FieldInvalid(kind.__name__, kind._fields[index], why)
    try:
        return kind(*fields)
    except TypeError:
        missing = kind._fields[len(fields)]
        raise FieldInvalid(kind.__name__, missing, "the field is missing") from None


def check_reply(kind: type[m.Message], value: Any) -> None:
    """Checks *value*, the value of the Ok that answers *kind*.

    The declaration of *kind* must define a check for this value.

    Raises:
        FieldInvalid: The value differs from its definition in section 11 of PROTOCOL.md.
    """
    check = reply_check_of(kind)
    assert check is not None, kind
    if why := check(value):
        raise FieldInvalid("Ok", f"value of {kind.__name__}", why)


def reply_check_of(kind: type[m.Message]) -> Check | None:
    """Returns the check of the value of the Ok that answers *kind*, or None without a check."""
    traits = OPERATIONS[NUMBERS[kind]].request
    return traits.ok_value if traits is not None else None


def to_array(message: m.Message) -> tuple[Any, ...]:
    """Returns *message* as the array of a frame."""
    kind = type(message)
    rest = _LEFT_OUT.get(kind)
    if rest is not None and message[-len(rest) :] == rest:
        return (NUMBERS[kind], *message[: -len(rest)])
    return (NUMBERS[kind], *message)
