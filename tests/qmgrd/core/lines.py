"""A peer, NYC, on several paths of one link: the messages on each path, and the answers."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.states import Side
from qmgrd.core.context.context import Dial, Outcome
from qmgrd.core.link.link import Link
from qmgrd.core.peer import Peer
from tests.qmgrd.core.harness import Client, Manager

FIRST = 500  # lowest number of a connection here, above those of the harness


class Line:
    """One connection of the link, from the view of NYC."""

    def __init__(self, lines: "Lines", dial: Dial, number: int) -> None:
        self.lines = lines
        self.dial = dial
        self.number = number
        self.sent: list[Any] = []  # messages that the link has sent since the last check
        self.taken = 0
        self.goaway: m.Goaway | None = None
        manager = lines.manager
        self.peer = Peer(
            number,
            manager.turns.intake,
            manager.config.limits,
            manager._welcome,
            manager.tokens,
            0,
            dial=dial,
        )
        self.wire = Connection(Side.LISTENER)
        self.wire.receive(self.peer.hello(), 0)

    def say(self, *messages: Any) -> None:
        for message in messages:
            self.peer.receive(self.wire.send(message), 0)
        self.lines.turn()

    def open(
        self,
        commit_id: int = 0,
        ahead: tuple[int, ...] = (),
        uid: bytes | None = None,
        incarnation: int = 1,
        life: bytes = b"",
        **welcome: Any,
    ) -> m.LinkOpen:
        """Welcomes the link, and reports the stored state of the stream."""
        self.say(m.Welcome(1, "NYC", b"N" * 16, 1, **welcome))
        (opening,) = self.sent
        self.sent.clear()
        assert isinstance(opening, m.LinkOpen)
        self.say(m.Ok(1, [1, commit_id, list(ahead), uid, 4096, incarnation, 0, life]))
        return opening

    def ids(self) -> list[int]:
        """Returns and removes the ids received since the last call."""
        puts = [x for x in self.sent if type(x) is m.Put]
        self.sent = [x for x in self.sent if type(x) is not m.Put]
        found = [put.first_id + i for put in puts for i in range(len(put.records))]
        self.taken += len(found)
        return found

    def commit(self, commit_id: int, *held: list[int]) -> None:
        """Reports the commit id, and the receipt of all messages sent here."""
        self.say(m.Committed(1, commit_id, held=list(held), taken=self.taken))

    def hang_up(self) -> None:
        self.peer.closed("cut")
        self.lines.turn()


class Lines:
    """All connections that the link NYC opens."""

    def __init__(self, manager: Manager, connections: int = 2, **attributes: Any) -> None:
        self.manager = manager
        self.app: Client = manager.connect()
        self.dials: list[Dial] = []
        self.lines: list[Line] = []
        given = {"addresses": ["h:1", "h:2"], "connections": connections} | attributes
        self.app.send(m.LinkCreate(1_000, "NYC", given))
        self.turn()
        self.app.ask(m.QueueCreate, "F@NYC")
        self.app.hear()

    @property
    def link(self) -> Link:
        return self.manager.turns.broker.catalogue.links["NYC"]

    @property
    def row(self) -> dict[str, Any]:
        return dict(self.app.ask(m.LinkShow, "NYC"))

    @property
    def now_ms(self) -> int:
        return self.manager.turns.broker.context.now.ms

    def turn(self, ms: int = 0) -> None:
        self.take(self.manager.turn(ms))

    def take(self, outcome: Outcome) -> None:
        """Delivers the output of a turn to the connections."""
        self.dials += [effect for effect in outcome.effects if isinstance(effect, Dial)]
        for line in self.lines:
            line.sent += [x for number, x in outcome.sends if number == line.number]
            ends = [x for number, x in outcome.closes if number == line.number]
            line.goaway = ends[0] if ends else line.goaway

    def put(self, count: int, size: int = 1) -> None:
        self.app.put("F@NYC", *[bytes(size)] * count)
        self.take(self.manager.last)

    def answer(self) -> Line:
        """Answers the first open dial."""
        line = Line(self, self.dials.pop(0), FIRST + len(self.lines))
        self.lines.append(line)
        return line

    def up(self, commit_id: int = 0, **told: Any) -> list[Line]:
        """Answers all open dials."""
        lines = [self.answer() for _ in list(self.dials)]
        for line in lines:
            line.open(commit_id, **told)
        return lines
