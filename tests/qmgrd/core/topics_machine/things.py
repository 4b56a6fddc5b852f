"""The model's publications, copies and subscriptions."""

from dataclasses import dataclass, field
from typing import Any

NEVER_MS = 1 << 62
ATTEMPTS_MAX = 10  # number of attempts kept: the first ones and the last ones
DEFAULT_LIMIT = 5
DEFAULTS: dict[str, Any] = {
    "redelivery_limit": -1,
    "depth_max": 100_000_000,
    "overflow": "discard-newest",
    "priority_default": 4,
    "expiry_max_ms": 0,
    "unused_expiry_ms": 0,
}


def has(filter_: str, topic: str) -> bool:
    """Returns whether *filter_* matches *topic*."""
    wanted, found = filter_.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        found = found[: len(wanted)] if len(found) >= len(wanted) else found
    return len(wanted) == len(found) and all(
        x in ("+", y) for x, y in zip(wanted, found, strict=True)
    )


def above(topic: str) -> list[str]:
    """Returns *topic* and its parents, the nearest first."""
    levels = topic.split("/")
    return ["/".join(levels[:count]) for count in range(len(levels), 0, -1)]


@dataclass(frozen=True)
class Wish:
    """A publication as its publisher requests it."""

    topic: str
    colour: str = ""
    priority: int | None = None  # None stands for each subscription's default.
    expiry_ms: int = 0
    delay_ms: int = 0
    is_volatile: bool = False
    is_retained: bool = False
    is_empty: bool = False
    uid: tuple[str, int] | None = None  # With None, the queue manager assigns a UID.


@dataclass(eq=False)
class Publication:
    """A publication. Publications are numbered in order of creation."""

    number: int
    wish: Wish
    body: bytes
    put_us: int
    expires_ms: int
    ready_ms: int
    # the UID, which is learned from the answer if the manager assigns it
    uid: tuple[str, int] = ("", 0)

    @property
    def name(self) -> str:
        """The UID as text."""
        return f"{self.uid[0]}.{self.uid[1]}"


@dataclass
class Lease:
    """A lease of a copy, and its end."""

    seat: int
    deadline_ms: int
    number: int = 0  # the lease number, learned from the delivery


@dataclass(eq=False)
class Copy:
    """A subscription's copy of a publication."""

    publication: Publication
    priority: int
    expires_ms: int  # expiry time, or NEVER_MS
    state: str = "ready"  # one of ready, leased, delayed and parked
    delivered: int = 0
    failed: int = 0
    maybe: bool = False  # whether the copy may have been delivered before a crash
    republished: bool = False
    awaits: bool = False  # whether a parked copy is sent when its subscriber returns
    attempts: list[tuple[int, str, str, str]] = field(default_factory=list)
    retries: int = 0  # number of republishes
    why: tuple[int, str, str] = (0, "", "")  # code, reason and text with which the copy was parked
    ready_ms: int = 0
    lease: Lease | None = None
    is_volatile: bool = False  # whether the copy is lost at a restart

    @property
    def order(self) -> tuple[int, int]:
        """The key of the delivery order."""
        return -self.priority, self.publication.number

    def is_expired(self, now_ms: int) -> bool:
        """Returns whether the copy has expired."""
        return self.expires_ms <= now_ms

    def note_attempt(self, code: int, reason: str, text: str, client: str) -> None:
        """Records a failure."""
        self.attempts.append((code, reason, text, client))
        if len(self.attempts) > ATTEMPTS_MAX:
            del self.attempts[1]


@dataclass
class Consumer:
    """A consumer of a subscription."""

    seat: int
    request_id: int
    credit: int
    lease_ms: int


@dataclass(eq=False)
class Subscription:
    """A subscription to some topics."""

    number: int  # position in the order of creation
    name: str
    filter: str
    colour: str  # only colour that is selected, or "" for any colour
    given: dict[str, Any]
    owner: int | None  # seat whose connection it depends on; None: durable
    used_ms: int
    copies: list[Copy] = field(default_factory=list)
    consumer: Consumer | None = None
    is_suspended: bool = False
    puts: int = 0
    acked: int = 0
    purged: int = 0
    expired: int = 0
    missed: int = 0
    lost: int = 0

    def value(self, attribute: str) -> Any:
        """Returns the value that applies to the subscription."""
        return self.given.get(attribute, DEFAULTS[attribute])

    def those(self, *states: str) -> list[Copy]:
        """Returns the copies that are in one of *states*, in the order of delivery."""
        return sorted((x for x in self.copies if x.state in states), key=lambda x: x.order)

    def available(self, now_ms: int) -> list[Copy]:
        """Returns the available copies, in order."""
        return [x for x in self.those("ready") if not x.is_expired(now_ms)]

    @property
    def depth(self) -> int:
        """The number of copies that count towards the depth. Parked copies do not count."""
        return len(self.those("ready", "leased", "delayed"))

    def copy_of(self, publication: Publication) -> Copy | None:
        """Returns the subscription's copy of a publication."""
        return next((x for x in self.copies if x.publication is publication), None)
