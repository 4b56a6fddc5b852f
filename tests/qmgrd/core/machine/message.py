"""Messages, leases and units of work in the model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Note = dict[str, Any]
Uid = tuple[str, int]


class Wish(NamedTuple):
    """A message as its producer requests it."""

    body: bytes
    uid: Uid | None = None
    priority: int | None = 4  # None stands for the queue's priority.
    correlation_id: bytes = b""
    # group id, number, and whether the message ends the group
    group: tuple[bytes, int, bool] | None = None
    colour: str = ""
    expiry_ms: int = 0
    delay_ms: int = 0
    volatile: bool = False
    padding: int = 0  # number of bytes added to the body; long bodies have separate rows


def name_of(body: bytes) -> bytes:
    """Returns the unique beginning of a body. A body may be long."""
    return body[: body.index(b":") + 1]


def stand_in(body: bytes) -> Uid:
    """Returns a unique placeholder for a UID, used until the manager assigns the UID."""
    return "", int(name_of(body)[:-1])


@dataclass(eq=False)
class Lease:
    """The lease of a message. A lease without a deadline ends with a unit of work."""

    number: int
    seat: int
    lease_ms: int
    deadline_ms: int | None
    unit: int = 0


@dataclass(eq=False, repr=False)
class Message:
    """A message on a queue, or in a unit of work that may put the message there."""

    queue: str
    wish: Wish
    priority: int
    order: tuple[int, int]  # order of arrival: the step, and the position within that step
    put_us: int
    uid: Uid  # the UID; a placeholder has no origin
    expires_ms: int = 0  # expiry time, or 0 for never
    # earliest and latest time at which the message is ready, or 0 for immediately
    ready_ms: tuple[int, int] = (0, 0)
    look_ms: tuple[int, int] = (0, 0)  # earliest and latest time of the next check
    delivered: int = 0
    failed: int = 0
    maybe: bool = False
    note: Note | None = None
    lease: Lease | None = None
    codes: tuple[int, ...] = ()  # possible causes of a dead letter, if the cause is random
    is_member: bool = False  # whether the message belongs to its group on this queue

    def __repr__(self) -> str:
        return (
            f"<{self.name!r} on {self.queue}, priority {self.priority}, order {self.order}, "
            f"delivered {self.delivered}, failed {self.failed}, expires {self.expires_ms}, "
            f"ready {self.ready_ms}, due {self.look_ms}, {self.lease}, "
            f"group {self.wish.group}{'' if self.is_member else ', no member'}>"
        )

    @property
    def name(self) -> bytes:
        """The unique beginning of the body."""
        return name_of(self.wish.body)

    @property
    def number(self) -> int:
        """The number in the group."""
        return 0 if self.wish.group is None else self.wish.group[1]

    @property
    def is_delayed(self) -> bool:
        return self.ready_ms != (0, 0)

    def is_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_ms <= now_ms


@dataclass(eq=False)
class Unit:
    """A unit of work of one seat."""

    number: int
    born_ms: int
    puts: list[Message] = field(default_factory=list)
    gets: list[Message] = field(default_factory=list)


class Selection(NamedTuple):
    """The selection of a get or a consumer: all messages, or those that match one criterion."""

    where: str = ""
    correlation_id: bytes = b""
    group_id: bytes = b""
    uid: Uid | None = None

    def wants(self, message: Message) -> bool:
        wish = message.wish
        if self.where:
            return CONDITIONS[self.where](message)
        if self.correlation_id:
            return wish.correlation_id == self.correlation_id
        if self.group_id:
            return message.is_member and wish.group is not None and wish.group[0] == self.group_id
        return self.uid is None or self.uid == message.uid

    def rank(self, message: Message) -> tuple[Any, ...]:
        """Returns the sort key of the delivery order. Within a group, the numbers come first."""
        place = -message.priority, message.order
        group = message.wish.group
        return (group[1], *place) if self.group_id and group is not None else place


ALL = Selection()
# Selectors and their equivalent conditions. Without a colour, a comparison is unknown.
CONDITIONS: dict[str, Callable[[Message], bool]] = {
    "priority > 4": lambda message: message.priority > 4,
    "colour = 'red'": lambda message: message.wish.colour == "red",
    "colour <> 'red'": lambda message: message.wish.colour not in ("", "red"),
    "colour IS NULL OR failed > 0": lambda message: not message.wish.colour or message.failed > 0,
    "NOT redelivered AND priority BETWEEN 2 AND 6": lambda message: (
        message.delivered == 0 and 2 <= message.priority <= 6
    ),
}


@dataclass(eq=False)
class Waiter:
    """A consumer, or a get that waits."""

    request_id: int
    seat: int
    queue: str
    credit: int
    lease_ms: int
    wanted: Selection = ALL
    until_ms: int | None = None  # end of a get's wait
    is_over: bool = False
