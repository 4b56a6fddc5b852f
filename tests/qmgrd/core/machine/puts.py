"""Rules that put new messages and duplicates, and that repeat puts."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.actor import Actor
from tests.qmgrd.core.machine.chances import NUMBERS, QUEUE_NAMES, SEAT_NUMBERS, WISHES
from tests.qmgrd.core.machine.message import Message, Wish
from tests.qmgrd.core.machine.seat import Seat, Sent


class Puts(Actor):
    """The rules for puts in numbered streams."""

    def _named(self, queue: str, wishes: list[Wish]) -> list[Wish]:
        """Returns *wishes* with unique bodies. UIDs that producers choose are new.

        A wish for a group gets a group id and a number (see GROUPED).
        """
        highest: dict[bytes, int] = {}
        found = []
        for wish in wishes:
            self.bench.bodies += 1
            number = self.bench.bodies
            uid = None if wish.uid is None else (wish.uid[0], number)
            group = None
            if wish.group is not None:
                group_id, ahead, is_last = wish.group
                top = highest.get(group_id) or self._highest(queue, group_id)
                group = group_id, max(top + ahead, 1), is_last
                highest[group_id] = max(top, group[1])
            body = b"%d:" % number + bytes(wish.padding)
            found.append(wish._replace(body=body, uid=uid, group=group))
        return found

    def _highest(self, queue: str, group_id: bytes) -> int:
        """Returns the highest known number of a group on a queue or in an open unit."""
        known = self.model.groups.known.get((queue, group_id))
        held = [
            x.wish.group
            for unit in self.model.units.values()
            for x in unit.puts
            if x.queue == queue
        ]
        found = [x[1] for x in held if x is not None and x[0] == group_id]
        return max([0 if known is None else known.highest, *found])

    def _put(self, seat: Seat, queue: str, wishes: list[Wish]) -> None:
        """Puts a batch, and compares the answer with the model's result for each message."""
        bench, model = self.bench, self.model
        batch = [bench.record(wish) for wish in wishes]
        first_id, seat.next_id = seat.next_id, seat.next_id + len(batch)
        refused: list[list[int]] = []
        stamped: list[Message] = []
        refused_all = model.refusal_of_all(queue)
        most = model.bounds[queue]["depth_max"]
        for seq_id, (wish, data) in enumerate(zip(wishes, batch, strict=True), first_id):
            index = seq_id - first_id
            if not refused_all and index % most == 0:  # A later message may have evicted it.
                piece = zip(wishes[index : index + most], batch[index:], strict=False)
                codes = [model.refusal(queue, one, len(record)) for one, record in piece]
                model.make_room(queue, sum(code in (0, ErrorCode.QUEUE_FULL) for code in codes))
            if code := refused_all or model.refusal(queue, wish, len(data)):
                refused.append([seq_id, int(code)])
                continue
            message = model.arrive(queue, wish)
            model.append(message)
            if wish.uid is None:
                stamped.append(message)
        model.sweep()
        seat.last = Sent(m.Put, (queue, batch), first_id, refused)
        answer = self._send_numbered(seat)
        times = [first + n for _, first, count in answer.stamped for n in range(count)]
        assert len(times) == len(stamped)
        bench.stamped(times, durable=not refused)

    def _send_numbered(self, seat: Seat) -> m.Committed:
        """Repeats the last put under its number, and compares the answer with the first one."""
        sent = seat.last
        assert sent is not None
        seen = sent.first_id - 1
        message: m.Message
        if sent.kind is m.Put:
            message = m.Put(seat.stream, sent.first_id, seen, *sent.fields)
        else:
            message = m.UnitCommit(seat.stream, sent.first_id, seen, *sent.fields)
        (answer,) = self.bench.say(seat, message)
        assert type(answer) is m.Committed
        assert answer.commit_id == seat.next_id - 1
        assert sorted(found[:2] for found in answer.refused) == sent.refused, (answer, sent.refused)
        return answer

    @rule(seat=SEAT_NUMBERS, queue=QUEUE_NAMES, wishes=st.lists(WISHES, min_size=1, max_size=4))
    def put(self, seat: int, queue: str, wishes: list[Wish]) -> None:
        self.bench.begin()
        self._put(self._seat(seat), queue, self._named(queue, wishes))
        self.bench.end()

    @rule(seat=SEAT_NUMBERS, wish=WISHES)
    def put_one(self, seat: int, wish: Wish) -> None:
        self.bench.begin()
        self._put(self._seat(seat), "Q", self._named("Q", [wish]))
        self.bench.end()

    @precondition(lambda self: any(x.wish.uid for x in self.model.messages))
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, twice=st.booleans())
    def put_duplicate(self, seat: int, number: int, twice: bool) -> None:
        """A12: The original message may be in any state."""
        known = [x for x in self.model.messages if x.wish.uid]
        found = known[number % len(known)]
        wish = Wish(b"0:again", uid=found.wish.uid)
        self.bench.begin()
        self._put(self._seat(seat), found.queue, [wish, wish] if twice else [wish])
        self.bench.end()

    @precondition(lambda self: self.consumed)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS)
    def put_consumed_again(self, seat: int, number: int) -> None:
        """A11: The UID of a consumed message is accepted again, unless the queue remembers it."""
        uid = self.consumed[number % len(self.consumed)]
        if any(x.uid == uid for x in self._everywhere()):
            return
        self.bench.begin()
        self.bench.bodies += 1
        self._put(self._seat(seat), "Q", [Wish(b"%d:anew" % self.bench.bodies, uid=uid)])
        self.bench.end()

    @rule(seat=SEAT_NUMBERS)
    def send_again(self, seat: int) -> None:
        """Repeats the last put or commit, which must get the same answer."""
        if self._seat(seat).last is None:
            return
        self.bench.begin()
        self._send_numbered(self._seat(seat))
        self.bench.end()
