"""The declarations of messages. The decorator above each class in messages.py declares its message.

``messages.OPERATIONS`` contains the declarations. All other tables are derived from these
declarations: numbers and checks (layout.py), the allowed senders (transitions.py), spec.json, and
in the daemon the rights, the growth of the store and the requests that only read. Each field has a
type from field_type.py or messages.py, which defines its limits.

To add a request, declare it in messages.py, write its handler and register the handler in
qmgrd.core.requests, then its client verb and its command. Tests report what is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from qmgr_protocol.field import NAME, NAMES, Check
from qmgr_protocol.need import EACH, Kind, Need
from qmgr_protocol.states import Move

if TYPE_CHECKING:
    from qmgr_protocol.messages import Message

MessageKind = TypeVar("MessageKind", bound="type[Message]")


class Role(Enum):
    """The role that the dialler's hello must have before an open connection allows a message."""

    ANY = "any"
    QUEUE_MANAGER = "queue-manager"


class Growth(Enum):
    """How a request may grow the store."""

    NOTHING = "nothing"  # The request reads, removes, or rewrites a row of the same size.
    OPERATES = "operates"  # The request adds or lengthens a row that is needed to make room.
    ADDS = "adds"  # The request adds rows.
    ITSELF = "itself"  # The handler reserves room for each message, so that ids stay in step.


class AnsweredBy(Enum):
    """The name of the message that answers a successful request.

    An Error answers a failed request.
    """

    OK = "Ok"
    DELIVER = "Deliver"  # Instead, an Ok with nil is sent if the wait ends without a message.
    COMMITTED = "Committed"
    SETTLED = "Settled"
    NONE = ""


@dataclass(frozen=True, slots=True)
class RequestTraits:
    """The rights that a request needs, its effects, and its answer."""

    needs: tuple[Need, ...]
    reads: bool  # True if the request only reads
    growth: Growth
    answered_by: AnsweredBy
    ok_value: Check | None  # check of the value in the Ok, if a client or a link uses the value
    is_long: bool  # True if the answer may fill a whole frame
    is_dropped: bool  # True if the request has no effect after its connection has closed


@dataclass(frozen=True, slots=True)
class Operation:
    """The declaration of a message.

    Invariant: ``checks`` has one check for each field of ``kind``.
    """

    number: int  # number on the wire, never reused
    kind: "type[Message]"
    checks: tuple[Check, ...]
    written_always: int  # number of fields that are written even if they have their defaults
    dialler: Role | None  # role with which the dialler may send it in state OPEN, or None
    listener: Role | None  # role with which the listener may send it in state OPEN, or None
    moves: tuple[Move, ...]  # changes to another state
    request: RequestTraits | None


_declared: dict[int, Operation] = {}


def declared() -> dict[int, Operation]:
    """Returns the declarations made so far, by number. messages.py exports all of them."""
    return _declared.copy()


def message(
    number: int,
    *,
    dialler: Role | None = None,
    listener: Role | None = None,
    moves: tuple[Move, ...] = (),
    left_out_from: str = "",
) -> Callable[[MessageKind], MessageKind]:
    """Declares a message that is not a request.

    Args:
        number: The number of the operation on the wire.
        dialler, listener: The role with which each side may send the message, or None.
        moves: The states in which the message may also be sent, if it changes the state.
        left_out_from: The first of the fields at the end that are omitted if all of them have
            their defaults. A busy connection seldom uses these fields.
    """
    return _declaring(number, dialler, listener, moves, left_out_from, None)


def request(
    number: int,
    needs: Need | tuple[Need, ...],
    growth: Growth,
    *,
    dialler: Role = Role.ANY,
    listener: Role | None = None,
    answered_by: AnsweredBy = AnsweredBy.OK,
    ok_value: Check | None = None,
    is_dropped: bool = False,
    left_out_from: str = "",
) -> Callable[[MessageKind], MessageKind]:
    """Declares a request. See :class:`RequestTraits` and :func:`message` for the arguments."""
    found = RequestTraits(
        _all(needs), False, growth, answered_by, ok_value, is_long=False, is_dropped=is_dropped
    )
    return _declaring(number, dialler, listener, (), left_out_from, found)


def query(
    number: int, needs: Need | tuple[Need, ...], *, is_long: bool, left_out_from: str = ""
) -> Callable[[MessageKind], MessageKind]:
    """Declares a request that only reads. :func:`request` declares other requests."""
    found = RequestTraits(
        _all(needs), True, Growth.NOTHING, AnsweredBy.OK, None, is_long=is_long, is_dropped=True
    )
    return _declaring(number, Role.ANY, None, (), left_out_from, found)


def _declaring(
    number: int,
    dialler: Role | None,
    listener: Role | None,
    moves: tuple[Move, ...],
    left_out_from: str,
    found: RequestTraits | None,
) -> Callable[[MessageKind], MessageKind]:
    def declare(kind: MessageKind) -> MessageKind:
        assert number not in _declared, f"{number} is {_declared[number].kind.__name__}"
        fields = kind._fields
        written_always = fields.index(left_out_from) if left_out_from else len(fields)
        checks = _take_checks(kind)
        if found is not None:
            _check_needs(kind, checks, found.needs)
        _declared[number] = Operation(
            number, kind, checks, written_always, dialler, listener, moves, found
        )
        return kind

    return declare


def _all(needs: Need | tuple[Need, ...]) -> tuple[Need, ...]:
    return (needs,) if isinstance(needs, Need) else needs


def _check_needs(kind: "type[Message]", checks: tuple[Check, ...], needs: tuple[Need, ...]) -> None:
    """Asserts that the needs of a request refer to its fields, and cover each name in them."""
    assert needs, f"{kind.__name__} needs no right"
    for need in needs:
        field, _, attribute = need.field.partition(".")
        assert (not field) == (need.kind in (Kind.MANAGER, Kind.PEER)), need
        assert field in ("", EACH, *kind._fields), need
        assert not attribute or field == "attributes", need
        assert need.when in ("", *kind._fields), need
    named = {need.field for need in needs}
    for field, check in zip(kind._fields, checks, strict=True):
        is_name = check is NAME or check is NAMES
        is_covered = field in named or EACH in named
        assert not is_name or is_covered, f"{kind.__name__}.{field} names an object without a need"


def _take_checks(kind: "type[Message]") -> tuple[Check, ...]:
    """Returns the checks of the fields of *kind*, and leaves the Python types as annotations."""
    annotations = kind.__annotations__  # the annotations of the constructor as well
    for name, annotation in annotations.items():
        assert hasattr(annotation, "__metadata__"), f"{kind.__name__}.{name} has no limits"
    checks = tuple(annotation.__metadata__[0] for annotation in annotations.values())
    annotations.update({name: found.__origin__ for name, found in annotations.items()})
    return checks
