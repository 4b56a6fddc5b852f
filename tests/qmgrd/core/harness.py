"""A queue manager and its clients: the real protocol and the real core, without sockets.

A Manager has the core and a store. The clocks of a Manager only advance when a test advances them.
A Client is a connection. `Client.ask` returns the answer to a request, and `Client.say` returns the
messages that arrive in one turn. The methods `put`, `get` and `ack` put, get and acknowledge
messages.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol import scram
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError, RequestError
from qmgr_protocol.record import Fields, Uid
from qmgr_protocol.states import Side
from qmgrd.core.access.login import OWNER, Decision, Identity, Login, Welcomed
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.boot import Boot
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout.clock import StoreClock
from qmgrd.core.layout.kv import Now
from qmgrd.core.limits.budget import ClockNs, frozen_clock
from qmgrd.core.peer import Peer, goodbye
from qmgrd.core.queue.lease import Lessee
from qmgrd.core.queue.lease_number import LeaseNumbers
from qmgrd.core.queue.put import put
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.incoming_bodies import PIECE_BYTES
from qmgrd.core.turn import Turns
from qmgrd.store.lmdb_store import LmdbStore
from tests.disk_stores import reopened
from tests.memory_store import MemoryStore

STORE_ID = b"S" * 16
SECRET = b"secret of one store, of 32 bytes"
WALL_US = 1_700_000_000_000_000
TURNS_MAX = 10_000

AnyStore = MemoryStore | LmdbStore


class Delivery(NamedTuple):
    """One delivered message."""

    queue_id: int
    priority: int
    arrival: int
    number: int
    delivered: int
    failed: int
    state: int
    put_us: int
    record: bytes
    tail: bytes = b""  # the remaining lifetime, and the note

    @property
    def body(self) -> bytes:
        return records.decode(self.record).body

    @property
    def uid(self) -> Uid:
        uid = records.decode(self.record).uid
        assert uid is not None
        return uid

    @property
    def handle(self) -> bytes:
        return m.HANDLE.pack(self.priority, self.arrival, self.number)


class Refused(NamedTuple):
    """A put that the queue manager refused."""

    seq_id: int
    code: ErrorCode
    text: str


class Admitted(Login):
    """A login without a password: the other end has a known identity."""

    def __init__(self, identity: Identity, owner: str) -> None:
        self.identity = identity
        self._owner = owner

    def owner(self, identity: Identity) -> str:
        return self._owner

    def begin(self, hello: m.Hello, now_ms: int, session_of: object = None) -> Decision:
        return Welcomed(self.identity)


class Manager:
    """A queue manager whose clocks only advance when a test advances them."""

    def __init__(
        self,
        store: AnyStore | None = None,
        /,
        *,
        name: str = "QM1",
        clock_ns: ClockNs = frozen_clock,
        **sections: Any,
    ) -> None:
        sections["link"] = {"inbound": "any"} | sections.get("link", {})
        self.config = Config.model_validate({"queue_manager": {"name": name}, **sections})
        self.store: Any = MemoryStore() if store is None else store
        self.clock_ns = clock_ns
        self.mono_ms = 1_000
        self.wall_us = WALL_US
        self.last = Outcome([], [], [], [])
        self._connections = 0
        self.start()

    starts = 0

    def start(self) -> None:
        """Starts the core from the store."""
        self.clients: dict[int, Client] = {}
        self.starts += 1
        # The random bytes become the id of a new store, or the salt of a later start.
        chance = STORE_ID if self.starts == 1 else self.starts.to_bytes(16, "big")
        secret = SECRET if self.starts == 1 else bytes(32)  # Only the first start needs one.
        self.turns = Turns(
            self.config, self.store, self._set_clock, chance, secret, clock_ns=self.clock_ns
        )
        self.tokens = self.turns.tokens

    def _set_clock(self, boot: Boot) -> Now:
        self._clock = StoreClock(
            boot.clock_ms,
            boot.wall_us,
            self.config.queue_manager.downtime_max_ms,
            self.mono_ms,
            self.wall_us,
        )
        self.boot = boot
        limits = self.config.limits
        self._welcome = m.Welcome(
            m.VERSION,
            self.config.queue_manager.name,
            boot.store_id,
            boot.number,
            frame_max_bytes=limits.frame_max_bytes,
            piece_max_bytes=PIECE_BYTES,
        )
        return self.now()

    def now(self) -> Now:
        return self._clock.now(self.mono_ms, self.wall_us)

    def advance(self, ms: int) -> None:
        """Lets time pass, without a turn."""
        self.mono_ms += ms
        self.wall_us += ms * 1000

    def turn(self, ms: int = 0) -> Outcome:
        """Advances the clocks by *ms* and runs one turn."""
        self.advance(ms)
        self.last = self.turns.run(self.now())
        for number, message in self.last.sends:
            if number in self.clients:
                client = self.clients[number]
                client.read(client.peer.encode(message))
        for number, goaway in self.last.closes:
            if number in self.clients:
                self.clients[number].hang_up(goaway)
        return self.last

    def rest(self) -> int:
        """Runs turns until no work is left; returns the number of turns."""
        for count in range(TURNS_MAX):
            if not self.turns.has_work:
                return count
            self.turn()
        raise AssertionError("the manager is never idle")

    def crash(self, away_ms: int = 0) -> None:
        """Discards the memory and all connections, and starts again."""
        self._reopen(away_ms)

    def restart(self, away_ms: int = 0) -> None:
        """Stops cleanly and starts again."""
        self.rest()
        for outcome in self.turns.stop(self.now()):
            self.last = outcome
        self._reopen(away_ms)

    def _reopen(self, away_ms: int) -> None:
        self.store.abort()
        if isinstance(self.store, LmdbStore):
            self.store = reopened(self.store)
        else:
            self.store.reopen()
        self.advance(away_ms)
        self.start()

    def connect(
        self,
        name: str = "app",
        role: str = "client",
        store_id: bytes = b"",
        session: bytes = b"",
        *,
        user: str = "",
        identity: Identity = OWNER,
        piece_bytes: int = 0,
    ) -> "Client":
        """Returns a new connection after its handshake, with a new or a resumed session.

        Args:
            name: The name of the client or queue manager.
            role: The role in the hello.
            store_id: The store id of a queue manager.
            session: The token of the session to resume.
            user: The user of the connection. The password is not checked, which would take time.
            identity: The identity of a connection without a user. The default may do everything.
            piece_bytes: The longest piece that the client accepts; 0 if it accepts none.
        """
        self._connections += 1
        owner = ""
        if user:
            found = self.turns.broker.users.users.get(user)
            verifier = found.verifier if found is not None else None
            owner = found.owner if found is not None else user
            identity = Identity(user, scram.METHOD, verifier)
        peer = Peer(
            self._connections,
            self.turns.intake,
            self.config.limits,
            self._welcome,
            self.tokens,
            self.mono_ms,
            login=Admitted(identity, owner),
        )
        client = Client(self, peer)
        self.clients[peer.number] = client
        hello = m.Hello(m.MAGIC, 1, 1, role, name, [], store_id, session=session)
        client.send(hello._replace(piece_max_bytes=piece_bytes))
        return client

    def queue(self, name: str) -> Queue:
        """Returns the internal object of a queue."""
        return self.turns.broker.catalogue.local(name)

    def fill(self, name: str, *batch: bytes) -> None:
        """Puts records to a system queue, as clients of an older daemon could."""

        def fill(broker: Broker) -> None:
            context, queue = broker.context, broker.catalogue.system(name)
            limit = context.config.limits.message_max_bytes
            for record in batch:
                done = put(queue, context.tx, context.now, context.stamper, [record], limit)
                assert not done.refused, done.refused
            context.mark_changed(queue)

        self.turns.intake.event(0, fill)
        self.turn()

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Returns all rows whose keys start with *prefix*."""
        tx = self.store.begin()
        try:
            return list(tx.scan(prefix, prefix + b"\xff" * 200))
        finally:
            self.store.abort()


class Client:
    """One connection to a manager. ``received`` has the messages that no call has returned yet."""

    def __init__(self, manager: Manager, peer: Peer) -> None:
        self.manager = manager
        self.peer = peer
        self.received: list[Any] = []
        self.goaway: m.Goaway | None = None
        self.session = b""  # the token that resumes the session
        self._wire = Connection(Side.DIALLER)
        self._last_id = 0
        self._producer: Producer | None = None

    # -- bytes

    def send(self, *messages: Any) -> None:
        """Sends messages without running a turn."""
        for message in messages:
            self.write(self._wire.send(message))

    def write(self, data: bytes) -> None:
        """Sends valid or invalid bytes."""
        try:
            self.read(self.peer.receive(data, self.manager.mono_ms))
        except RemoteProtocolError as error:
            self.hang_up(goodbye(error))

    def read(self, data: bytes) -> None:
        for message, _ in self._wire.receive(data, self.manager.mono_ms):
            if type(message) is m.Goaway:
                self.goaway = message
            elif type(message) is m.Welcome:
                self.session = message.session
            else:
                self.received.append(message)
        assert self._wire.error is None, self._wire.error

    def hang_up(self, goaway: m.Goaway | None = None) -> None:
        """Closes the connection. The manager notices the loss in its next turn."""
        if goaway is not None:
            self.read(self.peer.encode(goaway))
        if self.manager.clients.pop(self.peer.number, None) is not None:
            self.peer.closed("gone")

    # -- conversation

    def say(self, *messages: Any) -> list[Any]:
        """Sends messages, runs one turn, and returns the messages received."""
        self.send(*messages)
        self.manager.turn()
        return self.hear()

    def hear(self) -> list[Any]:
        """Returns the messages received since the last call."""
        heard, self.received = self.received, []
        return heard

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def ask(self, kind: Callable[..., Any], *fields: Any) -> Any:
        """Returns the value that answers a request, after as many turns as needed.

        Raises: RequestError: The error of the answer.
        """
        request_id = self.next_id()
        self.send(kind(request_id, *fields))
        return self.answer(request_id)

    def answer(self, request_id: int) -> Any:
        answer = self._wait(lambda x: type(x) in (m.Ok, m.Error) and x.request_id == request_id)
        if type(answer) is m.Error:
            raise RequestError(ErrorCode(answer.code), answer.text, answer.retry_after_ms)
        return answer.value

    def _wait(self, found: Callable[[Any], bool]) -> Any:
        for _ in range(TURNS_MAX):
            self.manager.turn()
            for message in self.received:
                if found(message):
                    self.received.remove(message)
                    return message
            assert self.goaway is None, self.goaway
        raise AssertionError(f"no answer; {self.received}")

    def code_of(self, kind: Callable[..., Any], *fields: Any) -> ErrorCode:
        """Returns the error code of a refused request."""
        try:
            value = self.ask(kind, *fields)
        except RequestError as error:
            return ErrorCode(error.code)
        raise AssertionError(f"not refused: {value}")

    # -- messages

    def producer(self, producer_id: bytes = b"", resume: bool = False) -> "Producer":
        own = producer_id or f"{self.peer.number:016}".encode()
        return Producer(self, own, resume)

    def put(self, queue: str, *bodies: bytes, **fields: Any) -> None:
        """Puts messages, none of which is refused."""
        refused = self.put_records(queue, *(record(body, **fields) for body in bodies))
        assert not refused, refused

    def put_records(self, queue: str, *batch: bytes) -> list[Refused]:
        """Puts records; returns the refusals."""
        if self._producer is None:
            self._producer = self.producer()
        return self._producer.put(queue, *batch)

    def get(
        self, queue: str, count: int = 1, *, lease_ms: int = 0, bytes_max: int = 1 << 30
    ) -> list[Delivery]:
        """Leases the messages that are available now, up to *count*."""
        request_id = self.next_id()
        self.send(m.Get(request_id, queue, count, 0, lease_ms, bytes_max))
        answer = self._wait(
            lambda x: type(x) in (m.Deliver, m.Ok, m.Error) and x.request_id == request_id
        )
        if type(answer) is m.Error:
            raise RequestError(ErrorCode(answer.code), answer.text, answer.retry_after_ms)
        return items(answer) if type(answer) is m.Deliver else []

    def consume(
        self, queue: str, messages: int = 10_000, bytes_: int = 1 << 40, lease_ms: int = 0
    ) -> int:
        """Opens a consumer; returns its request id."""
        request_id = self.next_id()
        self.send(m.Consume(request_id, queue, messages, bytes_, lease_ms))
        self.answer(request_id)
        return request_id

    def delivered(self) -> list[Delivery]:
        """Returns the deliveries to consumers and waiting gets."""
        return [x for message in self.hear() if type(message) is m.Deliver for x in items(message)]

    def ack(self, *deliveries: Delivery) -> list[int]:
        """Acknowledges deliveries; returns their error codes."""
        return self.settle(m.ACK, *deliveries)

    def release(self, *deliveries: Delivery) -> list[int]:
        """Releases deliveries; returns their error codes."""
        return self.settle(m.RELEASE, *deliveries)

    def settle(self, action: int, *deliveries: Delivery) -> list[int]:
        settle_id = self.next_id()
        handles = b"".join(delivery.handle for delivery in deliveries)
        self.send(m.Settle(settle_id, action, deliveries[0].queue_id, handles))
        answer = self._wait(lambda x: type(x) is m.Settled and x.settle_id >= settle_id)
        return [code for _, _, code in answer.exceptions]

    def browse(self, queue: str, count: int = 10_000) -> list[Delivery]:
        """Returns the messages of a queue from its start."""
        value = self.ask(m.Browse, queue, None, count, 1 << 40)
        return [delivery(0, item) for item in value["items"]]

    def bodies(self, queue: str) -> list[bytes]:
        """Returns the bodies of the messages on a queue, in order."""
        return [found.body for found in self.browse(queue)]

    def show(self, queue: str) -> dict[str, Any]:
        row: dict[str, Any] = self.ask(m.QueueShow, queue)
        return row


class Producer:
    """A sequenced producer with the state that a client would keep."""

    def __init__(self, client: Client, producer_id: bytes, resume: bool = False) -> None:
        self.client = client
        value = client.ask(m.ProducerOpen, producer_id, resume)
        self.stream, self.commit_id, self.ahead, self.refused = value[:4]
        self.next_id = self.commit_id + 1
        self.seen = 0

    def put(self, queue: str, *batch: bytes) -> list[Refused]:
        """Puts records with the next ids."""
        first_id, self.next_id = self.next_id, self.next_id + len(batch)
        return self.put_again(first_id, queue, *batch)

    def put_again(self, first_id: int, queue: str, *batch: bytes) -> list[Refused]:
        """Puts records with the given ids, in a single frame if the protocol allows it."""
        refused: list[Refused] = []
        for start in range(0, len(batch), 1000):
            part = list(batch[start : start + 1000])
            self.client.send(m.Put(self.stream, first_id + start, self.seen, queue, part))
            refused += self.answer()
            while self.client.peer.facts(0)[
                "waiting"
            ]:  # Parts of a long put have answers of turns.
                refused += self.answer()
        return refused

    def answer(self) -> list[Refused]:
        answer = self.client._wait(lambda x: type(x) is m.Committed and x.stream == self.stream)
        self.seen = self.commit_id = answer.commit_id
        return [Refused(seq_id, ErrorCode(code), text) for seq_id, code, text in answer.refused]


def numbers(session_id: bytes = b"one session's id") -> LeaseNumbers:
    """Returns the lease numbers of a session, for a test without a connection."""
    return LeaseNumbers(SECRET, session_id, 1)


def lessee(queue: Queue, lease_ms: int = 1_000) -> Lessee:
    """Returns a lessee of *queue*, for a test without a connection."""
    return Lessee(queue, numbers(), "", lease_ms)


def record(body: bytes, *, uid: tuple[str, int] | None = None, **fields: Any) -> bytes:
    """Returns a record."""
    return records.encode(Fields(body, uid=None if uid is None else Uid(*uid), **fields))


def items(message: m.Deliver) -> list[Delivery]:
    return [delivery(message.queue_id, item) for item in message.items]


def delivery(queue_id: int, item: bytes) -> Delivery:
    head = m.DELIVERY.unpack_from(item)
    behind = item[m.DELIVERY_BYTES :]
    cut = records.size_of(behind)
    return Delivery._make((queue_id, *head, behind[:cut], behind[cut:]))
