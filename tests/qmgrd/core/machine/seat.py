"""The clients of the manager. Each keeps its producer and its last request across connections."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from qmgrd.core.context.context import Outcome
from tests.qmgrd.core.harness import Client, Delivery, Manager
from tests.qmgrd.core.machine.message import Message
from tests.qmgrd.core.replay import Replay
from tests.sim.store import Change, WatchedStore


class Watched(Manager):
    """A manager whose output is recorded in order.

    The manager also keeps accounts, which the checks compare with the store.
    """

    def __init__(self, **sections: Any) -> None:
        self._is_clean = False
        self.replay: Replay | None = None
        defaults = {"accounting": "on"} | sections.pop("queue_defaults", {})
        super().__init__(WatchedStore(self._durable), queue_defaults=defaults, **sections)

    def _durable(self, changes: list[Change]) -> None:
        assert self.replay is not None
        self.replay.durable(changes, self.store.rows)

    def start(self) -> None:
        self.said: list[tuple[int, Any]] = []
        if self.replay is None:
            self.replay = Replay(self.config.queue_manager.name, self.config)
        else:
            self.replay.stopped(clean=self._is_clean)
        super().start()

    def restart(self, away_ms: int = 0) -> None:
        self._is_clean = True
        super().restart(away_ms)
        self._is_clean = False

    def turn(self, ms: int = 0) -> Outcome:
        outcome = super().turn(ms)
        self.said += outcome.sends
        broker = self.turns.broker
        assert self.replay is not None
        self.replay.look(broker.context.history, broker.catalogue.by_id.values())
        return outcome


class SessionId(NamedTuple):
    """A session of a seat, across all connections that resume it."""

    seat: int
    number: int


@dataclass(eq=False)
class Handle:
    """A handle that a session received, or a forged handle."""

    message: Message
    delivery: Delivery
    session: SessionId | None  # session that received the handle; None: a forgery


@dataclass
class Sent:
    """The last numbered request, and the refusals in its answer."""

    kind: type[Any]
    fields: tuple[Any, ...]  # the fields after the stream, the number and the seen id
    first_id: int
    refused: list[list[int]]  # pairs of id and error code


@dataclass
class Seat:
    """A client, across all its connections."""

    number: int
    client: Client
    stream: int = 0
    next_id: int = 1
    last: Sent | None = None
    units: int = 0  # number of units that have begun so far
    heard: list[Any] = field(default_factory=list)
    sessions: int = 1  # number of sessions so far

    @property
    def name(self) -> str:
        return f"c{self.number}"

    @property
    def session(self) -> SessionId:
        """The session of the seat's current connection."""
        return SessionId(self.number, self.sessions)

    def connect(self, manager: Manager, *, resumes: bool) -> None:
        """Connects again, in the last session or in a new one."""
        token = self.client.session if resumes else b""
        self.sessions += not resumes
        self.client = manager.connect(self.name, session=token)

    def open(self, *, resume: bool) -> Any:
        """Returns the request that opens the producer."""
        return m.ProducerOpen(self.client.next_id(), self.name.encode().rjust(16, b"."), resume)
