"""Players for the conversations in tests/conversations/group_put and group_get."""

from qmgr_client.groups.get import GroupGetState
from qmgr_client.groups.put import GroupPutState
from qmgr_client.outgoing import Group
from qmgr_client.sansio.units import Unit
from qmgr_protocol.errors import RequestError


class HandlePlayer:
    """A player with a handle that puts or gets groups, and with concurrent units of work.

    A line has a verb and words: last, volatile, or a name and a value (unit=A, group=1.4). An
    answer ends with the position of the handle. Groups are numbered in the order in which they
    start.
    """

    state: GroupPutState | GroupGetState

    def __init__(self) -> None:
        self.units: dict[str, Unit] = {}
        self.groups = 0

    def __call__(self, line: str) -> str:
        verb, *words = line.split()
        named = dict(word.split("=") for word in words if "=" in word)
        unit = None
        if name := named.get("unit"):
            unit = self.units.setdefault(name, Unit(len(self.units) + 1))
        group = None
        if place := named.get("group"):
            number, _, member = place.partition(".")
            group = Group(_group_id(int(number)), int(member), "last" in words)
        try:
            answer = getattr(self, f"_{verb}")(set(words), unit, group)
        except RequestError as error:
            answer = str(error)
        current, warning = self.state.current, self.state.warning
        shown = [answer, f"warning {warning.name}" if warning else ""]
        place = f"{_group_number(current.id)}.{current.number}" if current else "in no group"
        return "\n".join([*filter(None, shown), f"now      {place}"])

    def _commit(self, words: set[str], unit: Unit, group: Group | None) -> str:
        unit.is_over = True
        return "committed"

    def _backout(self, words: set[str], unit: Unit, group: Group | None) -> str:
        unit.is_over = unit.is_undone = True
        return "backed out"


class GroupPutPlayer(HandlePlayer):
    """A player with a handle that puts groups."""

    def __init__(self) -> None:
        super().__init__()
        self.state: GroupPutState = GroupPutState()

    def _logical(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        begins = self.state.current is None
        self.groups += begins
        try:
            answer = self.state.logical(
                _group_id(self.groups),
                unit,
                last="last" in words,
                persistent="volatile" not in words,
            )
        except RequestError:
            self.groups -= begins
            raise
        return (
            f"put      {_group_number(answer.id)}.{answer.number}{' last' if answer.last else ''}"
        )

    def _alone(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        self.state.alone()
        return "put      of no group"

    def _physical(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        self.state.physical(group, unit, persistent="volatile" not in words)
        return "put"

    def _refused(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        self.state.refused()
        return "it is refused"

    def _close(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        self.state.close()
        return "closed"


class GroupGetPlayer(HandlePlayer):
    """A player with a reader. The queue manager has one message for that reader."""

    def __init__(self) -> None:
        super().__init__()
        self.state: GroupGetState = GroupGetState()

    def _logical(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        self.state.logical(unit)
        return self._got(words, unit, group, logical=True)

    def _physical(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        self.state.physical()
        return self._got(words, unit, group, logical=False)

    def _got(
        self, words: set[str], unit: Unit | None, group: Group | None, *, logical: bool
    ) -> str:
        if "nothing" in words:
            return "nothing comes"
        self.state.got(group, unit, logical=logical)
        return "got"

    def _cut(self, words: set[str], unit: Unit | None, group: Group | None) -> str:
        self.state.lost()
        return "the connection is lost"


def _group_id(number: int) -> bytes:
    return number.to_bytes(24, "big")


def _group_number(group_id: bytes) -> int:
    return int.from_bytes(group_id, "big")
