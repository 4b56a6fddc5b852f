"""A scripted queue manager, and a connection that a test can cut."""

from typing import Any, TypeVar

from qmgr_client.message import PutResult
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import (
    ConsumerEnded,
    Event,
    PutDone,
    RequestDone,
    RequestFailed,
    SettleDone,
)
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import RequestError
from qmgr_protocol.states import Side

PRODUCER = b"p" * 16
STORE = b"s" * 16
NAME = "QM1"
RESULTS = (PutDone, SettleDone, RequestDone, RequestFailed, ConsumerEnded)

Kind = TypeVar("Kind")


class Scripted:
    """One client core and the far end of its connection.

    Invariant: ``heard`` has all messages that the core has sent but the test has not checked.
    """

    def __init__(self, *, coalesce: bool = True, **welcome: Any) -> None:
        self.core = ClientCore("test", PRODUCER, coalesce=coalesce)
        self.now_ms = 1_000
        self.heard: list[Any] = []
        self.done: dict[int, Any] = {}  # maps each ticket to its result
        self.events: list[Event] = []
        self.hello: Any = None  # Hello that started the last connection
        self._welcome: dict[str, Any] = {
            "version": 1,
            "name": NAME,
            "store_id": STORE,
            "boot": 1,
        } | welcome
        self._far: Connection | None = None

    def connect(self, **welcome: Any) -> "Scripted":
        """Connects, sends a Welcome and returns self."""
        self.core.connected(self.now_ms)
        self._far = Connection(Side.LISTENER, now_ms=self.now_ms)
        self.pump()
        self.hello = self.heard.pop()
        assert type(self.hello) is m.Hello
        self.say(m.Welcome(**(self._welcome | welcome)))
        return self

    def opened(self, *held: Any) -> "Scripted":
        """Connects, opens the producer with the stored ids *held*, and returns self."""
        self.connect()
        self.answer_open(*held)
        return self

    def answer_open(
        self, commit_id: int = 0, ahead: Any = (), refused: Any = (), stamps: Any = ()
    ) -> m.ProducerOpen:
        """Answers the request that opens the producer."""
        request = self.hear(m.ProducerOpen)
        value = [7, commit_id, list(ahead), [list(refusal) for refusal in refused]]
        value.append([list(run) for run in stamps])
        self.say(m.Ok(request.request_id, value))
        return request

    def cut(self) -> "Scripted":
        """Cuts the connection and returns self."""
        self.core.connection_lost()
        self._far = None
        self.heard.clear()
        self._note()
        return self

    def pump(self) -> list[Any]:
        """Lets the core send. Returns all messages that the test has not checked."""
        while data := self.core.data_to_send(self.now_ms):
            if self._far is not None:
                found = self._far.receive(data, self.now_ms)
                assert self._far.error is None, self._far.error
                self.heard += [message for message, _ in found]
        self._note()
        return self.heard

    def hear(self, kind: type[Kind]) -> Kind:
        """Returns the first message of *kind* that the test has not checked."""
        for index, message in enumerate(self.pump()):
            if type(message) is kind:
                del self.heard[index]
                return message
        raise AssertionError(f"no {kind.__name__} in {self.heard}")

    def hear_all(self, kind: type[Kind]) -> list[Kind]:
        """Returns all messages of *kind* that the test has not checked."""
        found = [message for message in self.pump() if type(message) is kind]
        self.heard = [message for message in self.heard if type(message) is not kind]
        return found

    def say(self, *messages: Any) -> None:
        """Sends *messages* to the core, and collects its events."""
        assert self._far is not None, "not connected"
        for message in messages:
            self.core.receive(self._far.send(message), self.now_ms)
        self._note()

    def _note(self) -> None:
        for event in self.core.events():
            self.events.append(event)
            if isinstance(event, RESULTS):
                ticket, result = event
                assert ticket not in self.done, f"two results: {event}"
                self.done[ticket] = result

    def latest(self, kind: type[Kind]) -> Kind:
        """Returns the latest event of *kind*."""
        found = [event for event in self.events if type(event) is kind]
        assert found, f"no {kind.__name__} in {self.events}"
        return found[-1]

    def put(self, body: bytes = b"x", queue: str = "Q") -> int:
        """Puts a message through the core and returns its ticket."""
        return self.core.put(queue, records.encode(records.Fields(body)))

    def results(self) -> list[PutResult | RequestError]:
        """Returns the results of puts in the order of their arrival."""
        return [event.result for event in self.events if type(event) is PutDone]


def delivery(
    body: bytes = b"x",
    arrival: int = 1,
    lease: int = 1,
    *,
    priority: int = 4,
    state: int = 0,
    counts: tuple[int, int] = (0, 0),
    **fields: Any,
) -> bytes:
    """Returns a delivery item."""
    uid = records.Uid(NAME, arrival)
    record = records.encode(records.Fields(body, priority, uid=uid, **fields))
    return m.DELIVERY.pack(priority, arrival, lease, *counts, state, 1_000_000) + record
