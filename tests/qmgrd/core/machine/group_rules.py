"""Rules for complete groups, and for operators who inspect groups and intervene."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.burial import skip
from tests.qmgrd.core.machine.chances import GROUPS, NUMBERS, QUEUE_NAMES, SEAT_NUMBERS, WISHES
from tests.qmgrd.core.machine.group import numbers
from tests.qmgrd.core.machine.message import Message, Wish
from tests.qmgrd.core.machine.puts import Puts

Key = tuple[str, bytes]


class GroupRules(Puts):
    """The rules for groups and for their operators."""

    def _key(self, number: int) -> Key:
        known = sorted(self.model.groups.known)
        return known[number % len(known)]

    @rule(seat=SEAT_NUMBERS, wish=WISHES, group_id=st.sampled_from(GROUPS), count=st.integers(1, 4))
    def put_group(self, seat: int, wish: Wish, group_id: bytes, count: int) -> None:
        """Puts all messages of a group, or its remaining messages."""
        self.bench.begin()
        wish = wish._replace(uid=None, padding=0)
        members = [wish._replace(group=(group_id, 1, n == count)) for n in range(1, count + 1)]
        self._put(self._seat(seat), "Q", self._named("Q", members))
        self.bench.end()

    @precondition(lambda self: self.model.groups.known)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS)
    def pause_group(self, seat: int, number: int) -> None:
        self.bench.begin()
        key = self._key(number)
        self.model.groups.known[key].is_paused = True
        self._alter_group(seat, key, "pause")

    def _stopped(self) -> list[Key]:
        return sorted(key for key, group in self.model.groups.known.items() if group.is_stopped)

    @precondition(lambda self: self._stopped())
    @rule(seat=SEAT_NUMBERS, number=NUMBERS)
    def resume_group(self, seat: int, number: int) -> None:
        self.bench.begin()
        key = self._stopped()[number % len(self._stopped())]
        group = self.model.groups.known[key]
        group.is_paused = False
        group.parked.clear()
        self._alter_group(seat, key, "resume")

    @precondition(lambda self: self.model.groups.known)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS)
    def close_group(self, seat: int, number: int) -> None:
        self.bench.begin()
        key = self._key(number)
        group = self.model.groups.known[key]
        last = group.last or max(group.left | numbers(self.model.messages, *key), default=0)
        if self.model.is_about_to_put(*key, last, 2**32):
            self._alter_group(seat, key, "close", code=ErrorCode.DUPLICATE_UNCOMMITTED)
            return
        group.is_closed, group.last = True, last
        group.highest = min(group.highest, group.last)
        self._alter_group(seat, key, "close")

    @precondition(lambda self: self.model.groups.known)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, to=st.sampled_from([0, 0, 1, 2, 4]))
    def skip_in_group(self, seat: int, number: int, to: int) -> None:
        self.bench.begin()
        key = self._key(number)
        group = self.model.groups.known[key]
        wanted = group.done + to if to else 0
        code = skip(self.model, key, wanted)
        self._alter_group(seat, key, "skip", wanted, code=code)

    def _alter_group(
        self, seat: int, key: Key, action: str, number: int = 0, *, code: int = 0
    ) -> None:
        queue, group_id = key
        answer = self.bench.ask(self._seat(seat), m.GroupAlter, queue, group_id, action, number)
        if code:
            assert answer == code
        else:
            assert answer["group"] == group_id.hex(), answer
        self.bench.end()

    @precondition(lambda self: self.model.groups.known)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS)
    def show_group(self, seat: int, number: int) -> None:
        model = self.bench.begin()
        queue, group_id = key = self._key(number)
        group = model.groups.known[key]
        there = [
            model.groups.member(model.messages, *key, x)
            for x in sorted(numbers(model.messages, *key))
        ]
        found = self.bench.ask(self._seat(seat), m.GroupShow, queue, group_id)
        assert found["count"] == sum(not x.is_delayed for x in there)
        assert found["delayed"] == sum(x.is_delayed for x in there)
        assert found["leased"] == sum(x.lease is not None for x in there)
        assert (found["next"], found["last"] or 0) == (group.done + 1, group.last)
        assert found["closed"] is group.is_closed
        shown = [(x["number"], x["state"], x["delivered"], x["failed"]) for x in found["members"]]
        assert shown == [(x.number, _state(x), x.delivered, x.failed) for x in there]
        listed: list[Any] = self.bench.ask(self._seat(seat), m.GroupList, queue)["groups"]
        ids = sorted(known.hex() for at, known in model.groups.known if at == queue)
        assert [x["group"] for x in listed] == ids
        self.bench.end()

    @rule(seat=SEAT_NUMBERS, queue=QUEUE_NAMES, page=st.integers(1, 5), whole=st.booleans())
    def browse_in_logical_order(self, seat: int, queue: str, page: int, whole: bool) -> None:
        model = self.bench.begin()
        there = model.groups.in_turn(model.messages, queue, whole=whole)
        self.bench.browse_all(
            self._seat(seat), queue, page, there, order=m.LOGICAL, all_available=whole
        )
        self.bench.end()


def _state(message: Message) -> str:
    if message.lease is not None:
        return "leased"
    return "delayed" if message.is_delayed else "ready"
