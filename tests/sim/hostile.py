"""A hostile client, which sends complete, damaged and partial random frames, and guesses handles.

The client runs next to the good clients and must not affect them. The ledger ignores the client's
own queues, whose names begin with ``H.``. The client guesses handles on all queues, puts on system
queues, claims to be another queue manager, floods, disconnects in the middle of a frame, and stops
reading at random.

Attacks that would succeed only because the daemon has no access rights yet are excluded. The client
does not get from, purge, alter or delete the queues of others, and does not publish to their
topics.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from qmgr_protocol import layout, record
from qmgr_protocol import messages as m
from qmgr_protocol.frame import LENGTH, FrameDecoder, encode
from qmgr_protocol.record import FLAG_REPORT_EXPIRY, REPLY_TO, Fields
from tests.fuzz.hostile_maker import OPERATIONS, HostileMaker, forged
from tests.sim.wire import Wire

if TYPE_CHECKING:
    from tests.sim.chance import Chance

NAMES = (
    "H.1",
    "H.2",
    "H.3",
    "H.NONE",
    "",
    "bad name",
    "x" * 1_024,
    "a@b@c",
    "SYSTEM.EVENTS",
    "SYSTEM.HOSTILE",
)
SYSTEM_QUEUES = ("SYSTEM.EVENTS", "SYSTEM.DEAD.LETTERS", "SYSTEM.PUBLICATIONS")
CLAIMS = ("EVIL", "JFK", "NOBODY")
ACTS = 0.08  # fraction of the steps in which each hostile client acts
FLOOD = 150
FRAME_MAX_BYTES = 8 << 20
# requests about the links of others
_LEFT_OUT = (m.LinkCreate, m.LinkAlter, m.LinkStart, m.LinkStop, m.LinkDelete)
_OPERATIONS = tuple(kind for kind in OPERATIONS if kind not in _LEFT_OUT)
_ACTIONS = (m.ACK, m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT, m.RENEW)


class Hostile:
    """A client of the queue manager *where*. Invariant: ``wire`` exists while it is connected."""

    name = "hostile"

    def __init__(self, world: "Chance", chances: Random, where: str) -> None:
        self._world, self._chances, self._where = world, chances, where
        self._maker = HostileMaker(chances, NAMES)
        self._wire: Wire | None = None
        self._over = False
        self._decoder = FrameDecoder(FRAME_MAX_BYTES)
        self._looks: dict[int, int] = {}  # maps the id of a request to the queue that it browses
        self._seen: list[tuple[int, bytes]] = []  # a queue id, and an item found on that queue
        self._last_id = 0
        self._stream, self._next_id = 0, 1
        self._claim = b""  # store id of the false identity
        self._is_welcome = False
        self._tricks: tuple[Callable[[], bytes], ...] = (
            self._any,
            self._any,
            self._guess,
            self._look,
            self._put,
            self._to_system,
            self._open,
        )
        self._rough = (self._bent, self._half, self._flood)

    def act(self) -> None:
        """Acts in some of the steps."""
        chances, node = self._chances, self._world.nodes[self._where]
        if self._over or chances.random() >= ACTS:
            return
        if self._wire is None:
            self._world.connect(self, node)
        elif chances.random() < 0.02:
            self._hang_up()
        elif self._is_welcome or chances.random() < 0.02:
            rough = chances.random() < 0.03  # Each of these actions ends a connection.
            self._send(chances.choice(self._rough if rough else self._tricks)())

    def give_up(self) -> None:
        """Disconnects permanently."""
        self._over = True
        self._hang_up()

    # -- the client's end of a connection

    def opened(self, wire: Wire) -> None:
        self._wire, self._stream, self._looks = wire, 0, {}
        self._is_welcome = False
        self._decoder = FrameDecoder(FRAME_MAX_BYTES)
        port: Any = wire.flow_from(self).port
        self._world.ledger.hostile.add((self._where, port.peer.number))
        self._send(self._hello())

    def received(self, data: bytes) -> None:
        if self._wire is None or self._over:
            return
        self._decoder.feed(data)
        for array, _ in self._decoder.drain():
            message = layout.parse(array)
            if type(message) is m.Ping and self._chances.random() < 0.8:
                self._send(_frame(m.Pong(message.number)))
            elif type(message) is m.Welcome:
                self._is_welcome = True
                self._send(self._lie() if self._claim else self._open())
            elif type(message) is m.Ok and type(message.value) is dict:
                queue_id = self._looks.pop(message.request_id, 0)
                items = message.value.get("items", ()) if queue_id else ()
                self._seen += [(queue_id, item) for item in items]
                self._seen = self._seen[-50:]
                if items and self._chances.random() < 0.5:
                    self._send(self._guess())
            elif type(message) is m.Ok and type(message.value) is list and message.value[3:]:
                self._stream, self._next_id = message.value[0], message.value[1] + 1

    def lost(self, why: str) -> None:
        del why
        self._wire, self._is_welcome = None, False

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close(self)

    def _send(self, data: bytes) -> None:
        if self._wire is not None:
            self._world.watch.happened["hostile frames"] += 1
            self._wire.send(self, data)

    def _id(self) -> int:
        self._last_id += 1
        return self._last_id

    # -- the output of the client

    def _hello(self) -> bytes:
        dice, self._claim = self._chances.random(), b""
        if dice < 0.05:
            return self._maker.damaged(_frame(m.Hello(m.MAGIC, 1, 1, "client", "hostile")))
        if dice < 0.85:
            return _frame(m.Hello(m.MAGIC, 1, 1, "client", "hostile"))
        self._claim, name = self._chances.randbytes(16), self._chances.choice(CLAIMS)
        name = "EVIL" if name in self._world.nodes and self._is_linked(name) else name
        return _frame(m.Hello(m.MAGIC, 1, 1, "queue-manager", name, [], self._claim))

    def _lie(self) -> bytes:
        """Opens a stream under the client's false identity, fetches, and commits."""
        start = self._chances.choice((1, 5, 2**40))
        return b"".join(
            map(
                _frame,
                (
                    m.LinkOpen(self._id(), self._claim + bytes(8), 1, start),
                    m.LinkFetch(self._id(), 0, FRAME_MAX_BYTES, 1 << 20, 100, 1 << 20),
                    m.Committed(1, self._chances.choice((1, 2**40))),
                ),
            )
        )

    def _is_linked(self, name: str) -> bool:
        """Returns whether *name* is this queue manager, or is linked with it.

        Identities are not verified yet, so a false peer that connects first is accepted.
        """
        nodes = self._world.nodes
        there = {*nodes[self._where].turns.broker.catalogue.links, self._where}
        return name in there or self._where in nodes[name].turns.broker.catalogue.links

    def _any(self) -> bytes:
        return _frame(self._maker.message(self._chances.choice(_OPERATIONS)))

    def _bent(self) -> bytes:
        return self._maker.damaged(self._any())

    def _half(self) -> bytes:
        size = self._chances.choice((100, FRAME_MAX_BYTES, FRAME_MAX_BYTES + 1))
        return LENGTH.pack(size) + self._any()[4:]

    def _flood(self) -> bytes:
        kind = self._chances.choice(_OPERATIONS)
        return b"".join(_frame(self._maker.message(kind)) for _ in range(FLOOD))

    def _look(self) -> bytes:
        """Browses any queue to learn handles."""
        queues = list(self._world.nodes[self._where].turns.broker.catalogue.by_id.values())
        queue, request_id = self._chances.choice(queues), self._id()
        self._looks[request_id] = queue.id
        return _frame(m.Browse(request_id, queue.name, None, 10, 1 << 16))

    def _guess(self) -> bytes:
        """Settles messages that others have leased, with a known handle or a similar one."""
        chances = self._chances
        if not self._seen:
            return self._look()
        queue_id, _ = chances.choice(self._seen)
        items = [item for at, item in self._seen if at == queue_id]
        handles = b"".join(forged(chances, chances.choice(items)) for _ in range(30))
        return _frame(m.Settle(self._id(), chances.choice(_ACTIONS), queue_id, handles))

    def _open(self) -> bytes:
        """Opens a stream, and creates the client's queues."""
        chances = self._chances
        producer_id = f"hostile {self._where}{chances.randrange(2)}".encode().ljust(16)[:16]
        return b"".join(
            map(
                _frame,
                (
                    m.ProducerOpen(self._id(), producer_id),
                    *(m.QueueCreate(self._id(), name) for name in NAMES[:3]),
                ),
            )
        )

    def _put(self) -> bytes:
        """Puts on the client's queues, in sequence or not, with reports to one of these queues."""
        chances = self._chances
        fields = Fields(
            b"hostile",
            envelope={REPLY_TO: chances.choice(NAMES[:4] + SYSTEM_QUEUES)},
            expiry_ms=chances.choice((0, 1, 300)),
            flags=chances.choice((0, FLAG_REPORT_EXPIRY)),
        )
        return self._put_to(
            chances.choice(NAMES[:3]), [record.encode(fields)] * chances.choice((1, 1, 1, 5))
        )

    def _put_to(self, queue: str, records: list[bytes]) -> bytes:
        if not self._stream:
            return self._open()
        first_id = self._next_id
        self._next_id += len(records)
        if self._chances.random() < 0.05:
            first_id = self._chances.choice((1, 10, 2**40))
        return _frame(m.Put(self._stream, first_id, 0, queue, records))

    def _to_system(self) -> bytes:
        """Puts on a system queue, sometimes as the first message of a group."""
        chances = self._chances
        group = (chances.randbytes(24), 1, False) if chances.random() < 0.5 else None
        records = [record.encode(Fields(b"hostile", group=group))]
        queue = chances.choice(SYSTEM_QUEUES)
        if chances.random() < 0.3 and self._stream:
            unit = (m.UnitBegin(self._id(), 1), m.UnitPut(self._id(), 1, queue, records))
            seq_id, self._next_id = self._next_id, self._next_id + 1
            commit = m.UnitCommit(self._stream, seq_id, 0, 1, 1, 0)
            return b"".join(map(_frame, (*unit, commit)))
        return self._put_to(queue, records)


def _frame(message: Any) -> bytes:
    return encode(layout.to_array(message))
