"""Clients that log in as users, while an operator grants and revokes their rights at random.

The users have their own queues, which the ledger ignores because their names begin with ``H.``.
user_law.py checks each message that enters or leaves one of these queues.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol import verifier
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Fields
from tests.sim.client import Asker, Client
from tests.sim.known_login import USER
from tests.sim.ledger import HOSTILE
from tests.sim.user_law import QUEUES, Law

if TYPE_CHECKING:
    from tests.sim.chance import Chance

NAMES = ("bob", "eve", "mover")
ALIAS = f"{HOSTILE}USERS.A"  # an alias of the first queue
GRANTS = tuple(f"{right} queue {queue}" for right in ("put", "get", "move") for queue in QUEUES)
BODY = b"USER:%s:%s:%s:"
PUTS_AHEAD_MAX = 4  # unanswered puts of a user
# The limits of some users. Connections: a lost one may still be open when the user connects again.
LIMITS = {
    "bob": {"puts_per_s_max": 4, "connections_max": 1, "consumers_max": 1, "streams_max": 1},
    "eve": {
        "put_bytes_per_s_max": 400,
        "connections_max": 2,
        "consumers_max": 2,
        "unread_bytes_max": 64,  # less than the bytes of a delivery
    },
}
VERIFIER = str(verifier.of_nobody(b"a secret of 32 bytes for worlds.", "admin"))
ACTS = 0.3  # fraction of the steps in which each user acts
CHANGES = 0.3  # fraction of the steps in which the operator changes a right

ROUNDS = 1_000  # rounds without faults at the end, in which the users still act


class UserClient(Client):
    """A client of one user. It does at random what its user may do, and what it may not do."""

    def __init__(
        self, world: "Chance", chances: Random, user: str, where: str, number: int
    ) -> None:
        super().__init__(world, USER + user, where)
        self._user, self._chances, self._lives = user, chances, number * 1_000
        self._forget()

    def _forget(self) -> None:
        self._stream = self._next_id = self._commit_id = 0
        self._opening = self._consumer = self._get = self._unit = self._unit_request = 0
        self._is_filled = False  # whether the open unit has a put
        self._held: list[tuple[int, bytes]] = []
        self._tags: dict[int, bytes] = {}  # tags of unanswered puts, by id

    def act(self) -> None:
        """Acts in some of the steps."""
        self.poll()
        if self._chances.random() >= ACTS:
            return
        if self.wire is None:
            self.dial()
        elif self.is_open and self._stream:
            deeds: tuple[Callable[[], None], ...] = (
                self._put,
                self._put,
                self._consume,
                self._get_one,
                self._ack,
                self._unit_of_work,
                self._move,
            )
            self._chances.choice(deeds)()

    def read_slowly(self) -> None:
        """Lets a user that has a limit of unread bytes read only in some of the rounds."""
        if self.wire is not None and "unread_bytes_max" in LIMITS.get(self._user, {}):
            self.wire.flow_to(self).clogged = self._chances.random() < 0.8

    def _body(self, queue: str, number: int = 0) -> bytes:
        """Returns a record that names the user, the queue, and the id *number* of a put."""
        reached, tag = QUEUES[0] if queue == ALIAS else queue, b""
        if number:
            tag = b"%d.%d" % (self._lives, number)
            self._tags[number] = tag
        return records.encode(Fields(BODY % (self._user.encode(), reached.encode(), tag)))

    def _any_queue(self) -> str:
        return self._chances.choice((*QUEUES, ALIAS))

    def _take_id(self) -> int:
        seq_id, self._next_id = self._next_id, self._next_id + 1
        return seq_id

    @property
    def _is_waiting(self) -> bool:
        """Whether a put or a commit is unanswered."""
        return self._commit_id < self._next_id - 1

    def _put(self) -> None:
        while self._next_id - 1 - self._commit_id < PUTS_AHEAD_MAX:
            queue, seen, number = self._any_queue(), self._commit_id, self._take_id()
            self.send(m.Put(self._stream, number, seen, queue, [self._body(queue, number)]))
            if self._chances.random() < 0.5:
                return

    def _consume(self) -> None:
        if not self._consumer:
            self._consumer = self.next_id()
            self.send(m.Consume(self._consumer, self._any_queue(), 1_000, 1 << 20, 60_000))
        else:
            self.send(m.Credit(self._consumer, 10, 10_000))

    def _get_one(self) -> None:
        if not self._get:
            self._get = self.next_id()
            self.send(m.Get(self._get, self._any_queue(), 1, 1_000, 60_000, 10_000))

    def _ack(self) -> None:
        if self._held:
            queue_id, handle = self._held.pop()
            action = self._chances.choice((m.ACK, m.ACK, m.UNREAD))
            self.send(m.Settle(self.next_id(), action, queue_id, handle))

    def _unit_of_work(self) -> None:
        if self._unit_request:
            return
        if not self._unit:
            self._unit = self._unit_request = self.next_id()
            self.send(m.UnitBegin(self._unit_request, self._unit))
        elif not self._is_filled:
            self._unit_request, queue = self.next_id(), self._any_queue()
            self.send(m.UnitPut(self._unit_request, self._unit, queue, [self._body(queue)]))
        elif not self._is_waiting:
            unit, seen, self._unit, self._is_filled = self._unit, self._commit_id, 0, False
            self.send(m.UnitCommit(self._stream, self._take_id(), seen, unit, 1, 0))

    def _move(self) -> None:
        if self._user == "mover":
            rate = self._chances.choice((0, 1, 5))
            self.send(m.QueueMove(self.next_id(), *QUEUES, rate=rate))

    def opened(self, wire: Any) -> None:
        port = wire.flow_from(self).port
        self.lab.ledger.hostile.add((self.where, port.peer.number))
        super().opened(wire)

    def welcomed(self, welcome: m.Welcome) -> None:
        self._lives += 1
        self._opening = self.next_id()
        producer_id = f"{self._user:8}{self._lives:08}".encode()
        self.send(m.ProducerOpen(self._opening, producer_id))

    def took(self, message: Any) -> None:
        kind, of = type(message), getattr(message, "request_id", -1)
        if kind is m.Deliver:
            for item in message.items:
                priority, arrival, lease = m.DELIVERY.unpack_from(item)[:3]
                self._held.append((message.queue_id, m.HANDLE.pack(priority, arrival, lease)))
            self._get = 0 if of == self._get else self._get
        elif kind is m.Committed:
            self._committed(message)
        elif kind is m.Ok and of == self._opening:
            self._stream, self._commit_id = message.value[:2]
            self._next_id = self._commit_id + 1
        elif of == self._unit_request and kind in (m.Ok, m.Error):
            is_put = of != self._unit
            self._unit_request = 0
            self._is_filled = is_put and kind is m.Ok and not message.value[0]
            if kind is m.Error and not is_put:
                self._unit = 0
        elif kind in (m.Ended, m.Error) and of == self._consumer:
            if message.code == ErrorCode.NOT_AUTHORIZED and kind is m.Ended:
                self.lab.watch.happened["users ended"] += 1
            self._consumer = 0
        elif kind in (m.Ok, m.Error) and of == self._get:
            self._get = 0

    def _committed(self, message: m.Committed) -> None:
        """Checks that the puts up to the commit id were stored, unless they were refused."""
        self._commit_id = message.commit_id
        for seq_id, *_ in message.refused:
            self._tags.pop(seq_id, None)
        for seq_id in [x for x in self._tags if x <= message.commit_id]:
            assert self.lab.user_law is not None
            self.lab.user_law.answered(self._user, self._tags.pop(seq_id))

    def disconnected(self) -> None:
        self._forget()


class Users:
    """The users of a world, and the operator who changes their rights."""

    def __init__(self, world: "Chance", where: str) -> None:
        self._chances = Random(f"users/{world.seed}")
        world.user_law = Law(world, where)
        self._operator = Asker(world, "operator-users", where)
        # The second client of bob competes for the only connection that bob may open.
        self._clients = [
            UserClient(world, self._chances, name, where, number)
            for number, name in enumerate((*NAMES, "bob"))
        ]
        self._rounds = ROUNDS
        self._granted: set[tuple[str, str]] = set()
        for queue in QUEUES:
            self._want(m.QueueCreate(0, queue))
        self._want(m.QueueCreate(0, ALIAS, {"alias_of": QUEUES[0]}))
        roles = {"verifier": VERIFIER, "roles": ["administrator"]}
        self._want(m.UserCreate(0, "admin", roles))
        for name in NAMES:
            self._want(m.UserCreate(0, name, {"verifier": VERIFIER} | LIMITS.get(name, {})))
        self._operator.dial()
        world.settle()  # Later faults may delay the changes of rights, but not the users.

    def _want(self, request: Any) -> None:
        self._operator.want(lambda number: request._replace(request_id=number))

    def act(self) -> None:
        """Lets the users and the operator act in some of the steps."""
        self._operator.poll()
        self._operator.dial()
        for client in self._clients:
            client.act()
        if self._chances.random() < CHANGES and not self._operator.todo:
            change = self._chances.choice(NAMES), self._chances.choice(GRANTS)
            right, kind, pattern = change[1].split()
            is_granted = change in self._granted
            self._granted ^= {change}
            request = m.GrantDelete if is_granted else m.GrantCreate
            self._want(request(0, change[0], "", [right], kind, pattern))

    def go_on(self) -> None:
        """Lets the users act in some more rounds without faults, and disconnects them."""
        if self._rounds > 0:
            self.act()
            for user in self._clients:
                user.read_slowly()
        elif not self._rounds:
            for client in (*self._clients, self._operator):
                client.hang_up()
        self._rounds -= 1

    @property
    def done(self) -> bool:
        """Whether the users are disconnected."""
        return self._rounds < 0
