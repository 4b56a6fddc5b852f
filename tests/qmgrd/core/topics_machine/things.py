"""What the model of topics knows: publications, the copies that subscriptions have, those alone."""

from dataclasses import dataclass, field
from typing import Any

NEVER_MS = 1 << 62
ATTEMPTS_MAX = 10  # of which the first is kept, and the last
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
    """Return whether *filter_* has *topic*."""
    wanted, found = filter_.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        found = found[: len(wanted)] if len(found) >= len(wanted) else found
    return len(wanted) == len(found) and all(
        x in ("+", y) for x, y in zip(wanted, found, strict=True)
    )


def above(topic: str) -> list[str]:
    """Return *topic* and those above it, the nearest first."""
    levels = topic.split("/")
    return ["/".join(levels[:count]) for count in range(len(levels), 0, -1)]


@dataclass(frozen=True)
class Wish:
    """What is published, as whoever publishes has it."""

    topic: str
    colour: str = ""
    priority: int | None = None  # None: each subscription's own
    expiry_ms: int = 0
    delay_ms: int = 0
    is_volatile: bool = False
    is_retained: bool = False
    is_empty: bool = False
    uid: tuple[str, int] | None = None  # None: the queue manager gives one


@dataclass(eq=False)
class Publication:
    """One publication. Its number says which came before which."""

    number: int
    wish: Wish
    body: bytes
    put_us: int
    expires_ms: int
    ready_ms: int
    uid: tuple[str, int] = ("", 0)  # learnt from the answer, where it was given there

    @property
    def name(self) -> str:
        """Its UID as people read it."""
        return f"{self.uid[0]}.{self.uid[1]}"


@dataclass
class Lease:
    """Who has a copy, and until when."""

    seat: int
    deadline_ms: int
    number: int = 0  # learnt from the delivery


@dataclass(eq=False)
class Copy:
    """What one subscription has of one publication."""

    publication: Publication
    priority: int
    expires_ms: int  # NEVER_MS: never
    state: str = "ready"  # or leased, delayed, parked
    delivered: int = 0
    failed: int = 0
    maybe: bool = False  # It may have been handed out before a crash.
    republished: bool = False
    awaits: bool = False  # Parked, to be sent when its subscriber is back.
    attempts: list[tuple[int, str, str, str]] = field(default_factory=list)
    retries: int = 0  # how often it was republished
    why: tuple[int, str, str] = (0, "", "")  # it is parked: code, reason, text
    ready_ms: int = 0
    lease: Lease | None = None
    is_volatile: bool = False  # It is gone with a restart.

    @property
    def order(self) -> tuple[int, int]:
        """What it is handed out by."""
        return -self.priority, self.publication.number

    def is_expired(self, now_ms: int) -> bool:
        """Return whether nobody gets it any more."""
        return self.expires_ms <= now_ms

    def note_attempt(self, code: int, reason: str, text: str, client: str) -> None:
        """Remember a failure."""
        self.attempts.append((code, reason, text, client))
        if len(self.attempts) > ATTEMPTS_MAX:
            del self.attempts[1]


@dataclass
class Consumer:
    """Who has what comes to a subscription sent."""

    seat: int
    request_id: int
    credit: int
    lease_ms: int


@dataclass(eq=False)
class Subscription:
    """Who gets what is published to some topics."""

    number: int  # in the order in which they were made
    name: str
    filter: str
    colour: str  # it wants no other; empty: any
    given: dict[str, Any]
    owner: int | None  # the seat whose connection it lives and dies with
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
        """Return what is in force."""
        return self.given.get(attribute, DEFAULTS[attribute])

    def those(self, *states: str) -> list[Copy]:
        """Return the copies in one of *states*, in the order of delivery."""
        return sorted((x for x in self.copies if x.state in states), key=lambda x: x.order)

    def available(self, now_ms: int) -> list[Copy]:
        """Return what can be had now, in order."""
        return [x for x in self.those("ready") if not x.is_expired(now_ms)]

    @property
    def depth(self) -> int:
        """How many there are that count against its depth: what is parked does not."""
        return len(self.those("ready", "leased", "delayed"))

    def copy_of(self, publication: Publication) -> Copy | None:
        """Return what it has of a publication."""
        return next((x for x in self.copies if x.publication is publication), None)
