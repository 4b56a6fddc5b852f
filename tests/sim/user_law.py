"""The law let_in_nothing: no message enters or leaves a queue by a user who lacks the right.

A body states who put it, and on which queue. The law compares each message on the queues of users
with the stored rows of the users, which it reads without the core:

    put, commit of a unit    the right to put, before or after the turn, or granted in the turn
    move                     the rights to move and to put after the turn: jobs run at its end
    delivery                 the right to get after the turn: deliveries follow all requests

The law keeps_limits: no user exceeds its limits. A put above a rate is delayed, and is neither lost
nor stored twice. The law counts for itself what each user has open and has put.
"""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol.codec import unpack
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.sim.audit_law import AuditLaw
from tests.sim.ledger import HOSTILE, require
from tests.sim.store import Change

if TYPE_CHECKING:
    from tests.sim.lab import Lab
    from tests.sim.node import Node

QUEUES = (f"{HOSTILE}USERS.1", f"{HOSTILE}USERS.2")


class Entered(NamedTuple):
    """A message that a transaction stored on a queue of the users."""

    user: str
    put_on: str  # queue in the body
    queue: str
    tag: bytes  # different for each put of a user; empty for a put of a unit of work
    size_bytes: int


class Law:
    """The stored rights of all users at one queue manager, and what each of them may do."""

    def __init__(self, world: "Lab", where: str) -> None:
        self._world, self._where = world, where
        self._rights: dict[str, set[str]] = {}  # after the last transaction
        self._before: dict[str, set[str]] = {}  # before that transaction
        self._queues: dict[int, str] = {}
        self._known: set[tuple[str, int]] = set()  # queue and arrival of all messages so far
        self._entered: list[Entered] = []
        self._limits: dict[str, dict[str, int]] = {}
        self._tags: set[tuple[str, bytes]] = set()  # all puts that were stored
        # Time, messages and bytes of the puts of each user since the last start.
        self._puts: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self._put_tags: set[tuple[str, bytes]] = set()  # those stored on the queue of the put
        self._boot = 0
        self._audit = AuditLaw(world)

    def durable(self, node: "Node", changes: list[Change]) -> None:
        """Reads the rights and the new messages of a transaction."""
        if node.name != self._where:
            return
        self._before, self._entered = dict(self._rights), []
        self._audit.durable(node, changes)
        for key, _, new in changes:
            if key.startswith(keys.SPACE_USER):
                self._read_user(key, new)
            elif key.startswith(keys.SPACE_QUEUE) and new is not None:
                row = unpack(rows.unseal(key, new))
                self._queues[row.get("queue_id", 0)] = key[keys.REST].decode()
        for key, old, new in changes:
            if key.startswith(keys.SPACE_MESSAGE) and old is None and new is not None:
                self._read_message(key, new)

    def _read_user(self, key: bytes, new: bytes | None) -> None:
        name = key[keys.REST].decode()
        row = {} if new is None else unpack(rows.unseal(key, new))
        grants = row["grants"] if row.get("enabled") else []
        self._rights[name] = {" ".join(grant) for grant in grants}
        self._limits[name] = row.get("limits", {})

    def _read_message(self, key: bytes, value: bytes) -> None:
        queue = self._queues.get(int.from_bytes(key[keys.QUEUE_ID], "big"), "")
        if queue not in QUEUES:
            return
        record = entries.decode(value).rest
        body = bytes(record[record.find(b"USER:") :]).split(b":")
        if body[0] != b"USER":
            return
        user, tag, place = body[1].decode(), body[3], (queue, keys.place(key)[1])
        self._tags.add((user, tag))
        if place not in self._known:  # A message that returned may be stored in another lane.
            self._known.add(place)
            self._entered.append(Entered(user, body[2].decode(), queue, tag, len(record)))

    def released(self, node: "Node", outcome: Outcome) -> None:
        """Checks the messages that entered in a durable turn, and those that it delivers."""
        if node.name != self._where:
            return
        self._audit.released(outcome)
        granted: dict[str, set[str]] = defaultdict(set)
        for note in outcome.notes:
            if note.event == "rights granted" and note.facts.get("user"):
                of = note.facts["user"]
                for right in note.facts["rights"]:
                    granted[of].add(f"{right} {note.facts['kind']} {note.facts['pattern']}")
        for user, put_on, queue, *_ in self._entered:
            if put_on == queue:
                may = self._rights[user] | self._before.get(user, set()) | granted[user]
                self._require(may, f"put queue {queue}", user)
            else:
                self._require(self._rights["mover"], f"move queue {put_on}", "mover")
                self._require(self._rights["mover"], f"put queue {queue}", "mover")
        self._check_rates(node)
        self._check_open(node)
        self._entered = []
        sessions = node.turns.broker.sessions
        for connection, message in outcome.sends:
            session = sessions.get(connection)
            if type(message) is m.Deliver and session is not None and session.identity.user:
                queue, user = self._queues[message.queue_id], session.identity.user
                self._require(self._rights[user], f"get queue {queue}", user)
                self._check_unread(node, user)

    def answered(self, user: str, tag: bytes) -> None:
        """Checks that an accepted put was stored."""
        require((user, tag) in self._tags, "keeps_limits", f"a put of {user} is lost")

    def _check_rates(self, node: "Node") -> None:
        """Checks the puts of this turn, and how fast each user has put since the last start.

        A user may put the tokens of one second at once, one put more, and the put of its open unit.
        """
        now_ms, boot = node.turns.broker.context.now.ms, node.turns.boot.number
        if boot != self._boot:  # The buckets are full after a start.
            self._boot = boot
            self._puts.clear()
        for user, put_on, queue, tag, size_bytes in self._entered:
            if put_on != queue:
                continue
            if tag:
                is_new = (user, tag) not in self._put_tags
                require(is_new, "keeps_limits", f"a put of {user} is stored twice")
                self._put_tags.add((user, tag))
            puts, limits = self._puts[user], self._limits[user]
            puts.append((now_ms, 1, size_bytes))
            for index, name in ((1, "puts_per_s_max"), (2, "put_bytes_per_s_max")):
                if limit := limits.get(name, 0):
                    self._world.watch.happened["users with a rate put"] += 1
                    self._check_rate(user, [(put[0], put[index]) for put in puts], limit)

    def _check_rate(self, user: str, puts: list[tuple[int, int]], limit: int) -> None:
        """Checks that no time until the last of *puts* has more of them than the rate allows."""
        end_ms, found, most = puts[-1][0], 0, max(size for _, size in puts)
        for start_ms, size in reversed(puts):
            found += size
            allowed = limit * (end_ms - start_ms + 1_000) / 1_000 + 2 * most
            require(found <= allowed, "keeps_limits", f"{user} put {found} from {start_ms} ms")

    def _check_open(self, node: "Node") -> None:
        """Checks how much of its limits each user uses after a turn."""
        used: dict[str, Counter[str]] = defaultdict(Counter)
        for session in node.turns.broker.sessions.values():
            used[session.identity.user].update(
                connections_max=1,
                consumers_max=len(session.consumers),
                streams_max=len(session.streams),
            )
        for user, found in used.items():
            for name, count in found.items():
                limit = self._limits.get(user, {}).get(name, 0)
                require(not limit or count <= limit, "keeps_limits", f"{user}: {name} is {count}")

    def _check_unread(self, node: "Node", user: str) -> None:
        """Checks that *user* had few unread bytes before the turn that delivers to it.

        The daemon counts these bytes again after they grow by a sixteenth of the limit.
        """
        limit = self._limits[user].get("unread_bytes_max", 0)
        unread = sum(
            node.ports[number].unsent_bytes
            for number, session in node.turns.broker.sessions.items()
            if session.identity.user == user and number in node.ports
        )
        is_less = not limit or unread <= limit + limit // 16
        require(is_less, "keeps_limits", f"{user} receives more, and left {unread} bytes unread")

    def _require(self, may: set[str], needed: str, user: str) -> None:
        self._world.watch.happened[f"users {needed.split()[0]}"] += 1
        require(needed in may, "let_in_nothing", f"{user} lacks the right to {needed}")
