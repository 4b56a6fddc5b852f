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

from qmgr_protocol.field import Check
from qmgr_protocol.states import Move

if TYPE_CHECKING:
    from qmgr_protocol.messages import Message

Kind = TypeVar("Kind", bound="type[Message]")


class Role(Enum):
    """The role that the dialler's hello must have before an open connection allows a message."""

    ANY = "any"
    QUEUE_MANAGER = "queue-manager"


class Right(Enum):
    """The right that a request needs."""

    CONNECT = "connect"  # Every connection has this right.
    PUT = "put"
    GET = "get"
    SUBSCRIBE = "subscribe"
    BROWSE = "browse"
    SHOW = "show"
    ADMIN = "admin"
    LINK = "link"


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
    """The right that a request needs, its effects, and its answer."""

    right: Right
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
) -> Callable[[Kind], Kind]:
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
    right: Right,
    growth: Growth,
    *,
    dialler: Role = Role.ANY,
    listener: Role | None = None,
    answered_by: AnsweredBy = AnsweredBy.OK,
    ok_value: Check | None = None,
    is_dropped: bool = False,
    left_out_from: str = "",
) -> Callable[[Kind], Kind]:
    """Declares a request. See :class:`RequestTraits` and :func:`message` for the arguments."""
    found = RequestTraits(
        right, growth, answered_by, ok_value, is_long=False, is_dropped=is_dropped
    )
    return _declaring(number, dialler, listener, (), left_out_from, found)


def query(
    number: int, right: Right = Right.SHOW, *, is_long: bool, left_out_from: str = ""
) -> Callable[[Kind], Kind]:
    """Declares a request that only reads. :func:`request` declares other requests."""
    found = RequestTraits(
        right, Growth.NOTHING, AnsweredBy.OK, None, is_long=is_long, is_dropped=True
    )
    return _declaring(number, Role.ANY, None, (), left_out_from, found)


def _declaring(
    number: int,
    dialler: Role | None,
    listener: Role | None,
    moves: tuple[Move, ...],
    left_out_from: str,
    found: RequestTraits | None,
) -> Callable[[Kind], Kind]:
    def declare(kind: Kind) -> Kind:
        assert number not in _declared, f"{number} is {_declared[number].kind.__name__}"
        fields = kind._fields
        written_always = fields.index(left_out_from) if left_out_from else len(fields)
        checks = _take_checks(kind)
        _declared[number] = Operation(
            number, kind, checks, written_always, dialler, listener, moves, found
        )
        return kind

    return declare


def _take_checks(kind: "type[Message]") -> tuple[Check, ...]:
    """Returns the checks of the fields of *kind*, and leaves the Python types as annotations."""
    annotations = kind.__annotations__  # the annotations of the constructor as well
    for name, annotation in annotations.items():
        assert hasattr(annotation, "__metadata__"), f"{kind.__name__}.{name} has no limits"
    checks = tuple(annotation.__metadata__[0] for annotation in annotations.values())
    annotations.update({name: found.__origin__ for name, found in annotations.items()})
    return checks
