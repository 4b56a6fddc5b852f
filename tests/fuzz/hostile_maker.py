"""Random messages of every operation, generated from the tables of the protocol.

A new operation needs no change here: the generator draws its fields by name, or from the values
that their checks accept. All names belong to the attackers. Otherwise, attacks would succeed only
because the daemon has no access rights yet.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS as DECLARED
from qmgr_protocol.operation import Role
from tests.fuzz.frames import EDGES, Maker

NAMES = (
    "H.1",
    "H.2",
    "H.3",
    "H.1@NYC",
    "H.2@NYC",
    "@NYC",
    "NYC",
    "H.NONE",
    "",
    "bad name",
    "x" * 1_024,
    "a@b@c",
    "/h/a",
    "/h/a/b",
    "H:s1",
    "H:s2",
    "SYSTEM.EVENTS",
    "SYSTEM.PUBLICATIONS",
    "SYSTEM.DEAD.LETTERS",
)
TOPICS = (
    "h/a",
    "h",
    "h/+",
    "h/#",
    "h/a/b",
    "h//b",
    "",
    "h@b",
    "x" * 1_024,
    "h/" + "/".join("x" * 32),
)
SUBSCRIPTIONS = ("", "H:s1", "H:s2", ":h@NYC", "H:", "H.1")
_OWN: dict[str, Sequence[Any]] = {
    "topic": TOPICS,
    "subscription": SUBSCRIPTIONS,
    "subscriptions": (["H:s1"], ["H:s2", ""]),
    "directory": ("relative", "", "/proc/hostile"),  # A snapshot cannot be written there.
    "cursor": ("H", "H.x", "", "bad name", "x" * 1_024),
    "job": EDGES[6:10],  # Attackers must not cancel the jobs of other clients either.
    "connection": EDGES[7:10],  # Closing other connections is a matter of access rights.
}
_DESTRUCTIVE = (m.QueueDelete, m.QueuePurge)
OPERATIONS = tuple(
    found.kind
    for _, found in sorted(DECLARED.items())
    if found.request is not None and found.dialler is Role.ANY
)


def forged(rng: Random, item: bytes, own: bytes = b"") -> bytes:
    """Returns a handle for a message, guessed from the item of a delivery or a browse.

    Args:
        item: An item of a Deliver, or of a page of browsed messages.
        own: A handle that the attacker itself received, whose bytes are imitated.
    """
    priority, arrival, number = m.HANDLE.unpack_from(item)
    checksum = int.from_bytes(item[m.DELIVERY_BYTES :][:4], "big")
    own_number = m.HANDLE.unpack(own)[2] if own else rng.getrandbits(64)
    count = rng.choice((1, 2, rng.randrange(100), rng.randrange(20_000)))
    number = rng.choice(
        (
            number,
            number + count,
            (checksum >> 9) << 40 | count,
            (checksum >> 9) << 40 | count,
            own_number + count,
            own_number ^ count,
            own_number >> 40 << 40 | count,
            count,
            checksum << 32 | count,
            rng.getrandbits(64),
        )
    )
    return m.HANDLE.pack(priority, arrival, number % 2**64)


class HostileMaker(Maker):
    """Makes messages with the attackers' names, and with edge values and plausible values."""

    def __init__(self, rng: Random, names: Sequence[str] = NAMES) -> None:
        """Draws from *rng*. The first three of *names* are drawn most often, and may be deleted."""
        super().__init__(rng)
        self._names = names
        self._makers[m.Subscribe] = lambda: m.Subscribe(
            self.id(),
            rng.choice(TOPICS[:5]),
            rng.choice(SUBSCRIPTIONS),
            "",
            self._attributes(),
            rng.random() < 0.5,
        )
        self._makers[m.TopicSet] = lambda: m.TopicSet(
            self.id(), rng.choice(TOPICS), self._attributes()
        )
        self._makers[m.QueueAlter] = lambda: m.QueueAlter(
            self.id(), rng.choice(self._names[:3]), self._attributes()
        )
        # The guessers (guessers.py) generate the realistic handles.
        self._makers[m.Settle] = lambda: (
            super(HostileMaker, self)._settle()._replace(queue_id=2**31)
        )

    def name(self) -> str:
        rng = self.rng
        return rng.choice(self._names[:3] if rng.random() < 0.7 else self._names)

    def pattern(self) -> str:
        return self.rng.choice(("H.*", "H.1", "H.?", "", "a b"))

    def _value(self, kind: type[Any], name: str) -> Any:
        if name in _OWN:
            return self.rng.choice(_OWN[name])
        if kind in _DESTRUCTIVE and name in ("queue", "target"):
            return self.rng.choice(self._names[:3])
        return super()._value(kind, name)

    def _link(self) -> tuple[str, dict[str, Any]]:
        name, attributes = super()._link()
        attributes["addresses"] = self.rng.choice((["127.0.0.1:1"], [], ["x"], [1], None))
        return name, attributes

    def _queue_move(self) -> m.QueueMove:
        move: m.QueueMove = super()._queue_move()
        return move._replace(
            queue=self.rng.choice(self._names[:3]), target=self.rng.choice(self._names[:3])
        )
