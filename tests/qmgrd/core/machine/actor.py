"""The base class of all rules. A rule acts on the queue manager and on the model in one step."""

from hypothesis.stateful import RuleBasedStateMachine

from tests.qmgrd.core.machine.bench import Bench
from tests.qmgrd.core.machine.message import Message
from tests.qmgrd.core.machine.seat import Seat


class Actor(RuleBasedStateMachine):
    """The methods that all rules share."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.model = self.bench.model
        self.consumed: list[tuple[str, int]] = []  # acknowledged UIDs that producers chose

    def _seat(self, number: int) -> Seat:
        return self.bench.seats[number]

    def _everywhere(self) -> list[Message]:
        held = [x for unit in self.model.units.values() for x in unit.puts]
        return self.model.messages + held
