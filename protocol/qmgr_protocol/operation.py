"""How a message is declared, once, by the decorator above its class in messages.py.

``messages.OPERATIONS`` holds the declarations. All other tables are derived from it: numbers and
checks (layout.py), who may send what (transitions.py), spec.json, and in the daemon the rights, the
growth of the store and the requests that only read. Each field has a type, of field_type.py or
messages.py, which carries its limits.

To add a request: declare it in messages.py, write its handler and register that in
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
    """The role that the dialler's hello must have, so that an open connection allows a message."""

    ANY = "any"
    QUEUE_MANAGER = "queue-manager"


class Right(Enum):
    """The right that a request needs."""

    CONNECT = "connect"  # Every connection has it.
    PUT = "put"
    GET = "get"
    SUBSCRIBE = "subscribe"
    BROWSE = "browse"
    SHOW = "show"
    ADMIN = "admin"
    LINK = "link"


class Growth(Enum):
    """How a request may grow the store."""

    NOTHING = "nothing"  # It reads, removes, or rewrites a row of the same size.
    OPERATES = "operates"  # It adds or lengthens a row that is needed to make room.
    ADDS = "adds"  # It adds rows.
    ITSELF = "itself"  # Its handler asks for room, message by message, so ids stay in step.


class AnsweredBy(Enum):
    """The name of the message that answers a request if it succeeds. An Error answers a failure."""

    OK = "Ok"
    DELIVER = "Deliver"  # or an Ok with nil, if the wait ends without a message
    COMMITTED = "Committed"
    SETTLED = "Settled"
    NONE = ""


@dataclass(frozen=True, slots=True)
class RequestTraits:
    """The right that a request needs, its effects, and its answer."""

    right: Right
    growth: Growth
    answered_by: AnsweredBy
    ok_value: Check | None  # of its Ok, if a client or a link works with that value
    is_long: bool  # Its answer may be as long as a frame.
    is_dropped: bool  # It has no effect once its connection is closed.


@dataclass(frozen=True, slots=True)
class Operation:
    """The declaration of a message.

    Invariant: there is one check for each field of *kind*.
    """

    number: int  # never reused
    kind: "type[Message]"
    checks: tuple[Check, ...]
    written_always: int  # how many fields are written even if all others have their defaults
    dialler: Role | None  # whether the dialler may send it when the connection is OPEN
    listener: Role | None  # whether the listener may
    moves: tuple[Move, ...]  # to another state
    request: RequestTraits | None


_declared: dict[int, Operation] = {}


def declared() -> dict[int, Operation]:
    """Returns the declarations so far, by number; messages.py, which makes them, offers all."""
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
        number: of the operation, on the wire.
        dialler, listener: the role with which each side may send it, or None.
        moves: the states in which it may also be sent, if it moves the connection to another one.
        left_out_from: the first of the fields at the end that are left out if they all have their
            defaults. A busy connection seldom uses these.
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
    """Declares a request that only reads, as :func:`request` declares others."""
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
    """Returns the checks of the fields of *kind*, and leaves their Python types for readers."""
    annotations = kind.__annotations__  # also those of its constructor
    for name, annotation in annotations.items():
        assert hasattr(annotation, "__metadata__"), f"{kind.__name__}.{name} has no limits"
    checks = tuple(annotation.__metadata__[0] for annotation in annotations.values())
    annotations.update({name: found.__origin__ for name, found in annotations.items()})
    return checks
