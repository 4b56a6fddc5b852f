"""Those who talk to the manager: each keeps its producer, and what it sent, over connections."""

from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import messages as m
from qmgrd.core.context import Outcome
from tests.qmgrd.core.harness import Client, Delivery, Manager
from tests.qmgrd.core.machine.message import Message


class Watched(Manager):
    """A manager whose every word is kept, in the order in which it said them."""

    def start(self) -> None:
        self.said: list[tuple[int, m.Message]] = []
        super().start()

    def turn(self, ms: int = 0) -> Outcome:
        outcome = super().turn(ms)
        self.said += outcome.sends
        return outcome


@dataclass(eq=False)
class Handle:
    """What somebody was once handed."""

    message: Message
    delivery: Delivery


@dataclass
class Sent:
    """What was sent under a number, and which refusals answered it."""

    kind: type[Any]
    fields: tuple[Any, ...]  # behind stream, number and seen
    first_id: int
    refused: list[list[int]]  # id and code


@dataclass
class Seat:
    """One client, over all its connections."""

    number: int
    client: Client
    stream: int = 0
    next_id: int = 1
    last: Sent | None = None
    units: int = 0  # ever begun
    heard: list[m.Message] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"c{self.number}"

    def open(self, *, resume: bool) -> m.Message:
        """Return what opens its producer."""
        return m.ProducerOpen(self.client.next_id(), self.name.encode().rjust(16, b"."), resume)
