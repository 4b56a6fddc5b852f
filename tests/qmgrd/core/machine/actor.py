"""Who does things to the manager, and to the model in the same step."""

from hypothesis.stateful import RuleBasedStateMachine

from tests.qmgrd.core.machine.bench import Bench
from tests.qmgrd.core.machine.message import Message
from tests.qmgrd.core.machine.seat import Seat


class Actor(RuleBasedStateMachine):
    """What all rules share."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.model = self.bench.model
        self.consumed: list[tuple[str, int]] = []  # UIDs of their own that were acknowledged

    def _seat(self, number: int) -> Seat:
        return self.bench.seats[number]

    def _everywhere(self) -> list[Message]:
        held = [x for unit in self.model.units.values() for x in unit.puts]
        return self.model.messages + held
