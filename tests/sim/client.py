"""A client's end of a connection. It does not use the production client, so it can misbehave."""

from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection, LivenessExpired
from qmgr_protocol.states import Side, State
from tests.sim.lab import Lab
from tests.sim.ledger import require
from tests.sim.node import Node, PeerPort
from tests.sim.wire import Wire

REDIAL_MS = 100


class Client:
    """A client of the queue manager *where*. Subclasses add behaviour.

    Invariant: ``wire`` and ``connection`` exist only from a dial until the loss of the connection.
    """

    def __init__(self, lab: Lab, name: str, where: str) -> None:
        self.lab = lab
        self.name = name
        self.where = where
        self.wire: Wire | None = None
        self.connection: Connection | None = None
        self.closing = False
        self.requests = 0
        self.session = b""  # secret from the last welcome, which resumes the session
        self.resumes = not name.endswith("1")  # Other clients are fenced only by their streams.
        # time until which the client waits after a goodbye, as every client should
        self.idle_until_ms = 0

    @property
    def node(self) -> Node:
        """The queue manager to which the client connects."""
        return self.lab.nodes[self.where]

    @property
    def connection_number(self) -> int:
        """The number of this connection at the queue manager; 0 without a connection."""
        if self.wire is None:
            return 0
        port = self.wire.flow_from(self).port
        assert isinstance(port, PeerPort)
        return port.peer.number

    @property
    def is_open(self) -> bool:
        """True if the client can send requests."""
        return self.connection is not None and self.connection.state is State.OPEN

    def dial(self) -> None:
        """Connects if it is not connected."""
        if self.wire is None and self.lab.now_ms >= self.idle_until_ms:
            self.lab.connect(self, self.node)

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        self.closing = False
        self.connection = Connection(Side.DIALLER, now_ms=self.lab.now_ms)
        hello = m.Hello(m.MAGIC, m.VERSION, m.VERSION, "client", self.name)
        self.send(hello._replace(session=self.session if self.resumes else b""))

    def received(self, data: bytes) -> None:
        connection = self.connection
        if connection is None or self.closing:
            return
        for message, _ in connection.receive(data, self.lab.now_ms):
            if not self.is_open:  # A goodbye followed this message.
                self.idle_until_ms = self.lab.now_ms + REDIAL_MS
                self.hang_up()
                return
            if isinstance(message, m.Welcome):
                self.session = message.session
                self.welcomed(message)
            elif isinstance(message, m.Ping):
                self.send(m.Pong(message.number))
            elif type(message) is not m.Pong:
                self.took(message)
        fact = f"{self.where} to {self.name}: {connection.error}"
        require(connection.error is None, "peers_keep_the_protocol", fact)

    def lost(self, why: str) -> None:
        self.wire = self.connection = None
        wait_ms = self.lab.random.choice([0, REDIAL_MS])
        self.idle_until_ms = max(self.idle_until_ms, self.lab.now_ms + wait_ms)
        self.disconnected()

    def send(self, message: Any) -> None:
        """Sends *message*."""
        if self.wire is not None and self.connection is not None and not self.closing:
            self.wire.send(self, self.connection.send(message))

    def hang_up(self) -> None:
        """Closes the connection."""
        if self.wire is not None:
            self.closing = True
            self.wire.close(self)

    def poll(self) -> None:
        """Sends heartbeats, and gives up a wire on which nothing arrives."""
        if self.connection is None or self.wire is None:
            return
        try:
            ping = self.connection.poll(self.lab.now_ms, 10_000, 30_000)
        except LivenessExpired:
            self.hang_up()
        else:
            self.wire.send(self, ping)

    def next_id(self) -> int:
        """Returns an unused request id."""
        self.requests += 1
        return self.requests

    def holds(self, request_id: int, reader: int = 0) -> None:
        """Records that a consumer, or a get of *reader*, will hold groups."""
        if number := self.connection_number:
            holder = (number, "reader", reader) if reader else (number, "request", request_id)
            self.lab.ledger.ordered[self.where, number, request_id] = holder

    def welcomed(self, welcome: m.Welcome) -> None:
        """Starts work on a new open connection."""

    def took(self, message: Any) -> None:
        """Handles a message from the queue manager."""

    def disconnected(self) -> None:
        """Handles the loss of the connection."""


class Asker(Client):
    """A client that makes requests one by one, and repeats each of them until it is answered."""

    def __init__(self, lab: Lab, name: str, where: str) -> None:
        super().__init__(lab, name, where)
        self.todo: list[tuple[Callable[[int], Any], Callable[[Any], None]]] = []
        self.said: list[Any] = []  # received messages that are not answers
        self._open = 0  # id of the current request

    def want(
        self, make: Callable[[int], Any], take: Callable[[Any], None] = lambda answer: None
    ) -> None:
        """Queues the request that *make* returns. *take* receives the Ok or Error."""
        self.todo.append((make, take))
        self.go_on()

    def ask(self, make: Callable[[int], Any]) -> Any:
        """Returns the answer to a request, in a lab that a test drives step by step."""
        answers: list[Any] = []
        self.lab.settle()
        self.idle_until_ms = 0
        self.dial()
        self.want(make, answers.append)
        self.lab.settle()
        (answer,) = answers
        return answer.value if type(answer) is m.Ok else answer

    def go_on(self) -> None:
        """Sends the next request."""
        if self.todo and self.is_open and not self._open:
            self._open = self.next_id()
            self.send(self.todo[0][0](self._open))

    def welcomed(self, welcome: m.Welcome) -> None:
        self.go_on()

    def took(self, message: Any) -> None:
        if type(message) not in (m.Ok, m.Error) or message.request_id != self._open:
            self.said.append(message)
            return
        self._open = 0
        _, take = self.todo.pop(0)
        take(message)
        self.go_on()

    def disconnected(self) -> None:
        self._open = 0
