"""The workbench of the rules: a queue manager, its clients, the model, and a step.

    begin ─▶ the rule changes the model ─▶ say: the manager receives it, and runs until it is idle
          ─▶ each message of the manager is compared with the model ─▶ end: so is the store

The model, and not this module, decides what is correct.
"""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Delivery, items, record
from tests.qmgrd.core.machine.burial import end_groups
from tests.qmgrd.core.machine.compare import compare_delivery, compare_store
from tests.qmgrd.core.machine.defaults import DEFAULTS
from tests.qmgrd.core.machine.message import Message, Selection, Waiter, Wish, name_of
from tests.qmgrd.core.machine.model import DEAD_LETTERS, Model
from tests.qmgrd.core.machine.seat import Handle, Seat, Watched

SEATS = 3
UNIT_AGE_MS = 20_000
DOWNTIME_MAX_MS = 30 * 24 * 3_600_000
QUEUES = ("Q", "B")
ARCHIVE = "C"  # This queue receives copies, but has no consumers.
ALL_QUEUES = (*QUEUES, DEAD_LETTERS)
HANDLES_MAX = 40  # number of handles that the bench remembers


class Bench:
    """Runs the steps of rules.

    Invariant: between two steps the manager is idle, and its store matches the model.
    """

    def __init__(self) -> None:
        self.manager = Watched(
            unit={"age_max_ms": UNIT_AGE_MS}, queue_manager={"downtime_max_ms": DOWNTIME_MAX_MS}
        )
        self.model = Model("QM1", UNIT_AGE_MS)
        self.handles: list[Handle] = []
        self.expected: dict[int, int] = {}  # expected number of messages of each get, by request
        self.seats: list[Seat] = []
        self.bodies = 0
        # message that was assumed to be first, and a later one
        self.guessed: list[tuple[Message, Message]] = []
        self.stamp_us = 0
        self.durable_us = 0  # last timestamp that survives a crash
        self.wall_jumped = False
        self._connect(resumes=False)
        for queue in (*QUEUES, ARCHIVE):
            self.model.bounds[queue] = dict(DEFAULTS)
            self.ask(self.seats[0], m.QueueCreate, queue)

    def _connect(self, *, resumes: bool) -> None:
        """Connects all clients and their producers; with *resumes*, in their last sessions."""
        for number in range(SEATS):
            if len(self.seats) < SEATS:
                self.seats.append(Seat(number, self.manager.connect(f"c{number}")))
                self._open(self.seats[number], resume=False)
            else:
                self.come_back(self.seats[number], resumes=resumes)

    def come_back(self, seat: Seat, *, resumes: bool) -> None:
        """Connects a client that has hung up; with *resumes*, in its last session."""
        seat.connect(self.manager, resumes=resumes)
        self._open(seat, resume=True)

    def _open(self, seat: Seat, *, resume: bool) -> None:
        request = seat.open(resume=resume)
        answer = self.say(seat, request, request.request_id)[0].value
        stream, commit_id, ahead, refused, stamps = answer
        assert (commit_id, ahead) == (seat.next_id - 1, [])
        assert all(first + count <= seat.next_id for first, _, count in stamps), stamps
        last = seat.last
        known = last.refused if last is not None else []
        assert sorted(found[:2] for found in refused) == known, (refused, last)
        seat.stream = stream

    # -- a step

    def begin(self) -> Model:
        """Begins a step."""
        now = self.manager.now()
        self.model.begin(now.ms, now.wall_us)
        return self.model

    def end(self) -> None:
        """Compares the store with the model. A get must not wait for an available message."""
        model = self.model
        model.groups.rest(model.messages)
        for waiter in model.waiters:
            assert not waiter.is_over, f"{waiter} was not answered in time"
            assert waiter.credit <= 0 or not model.available(waiter), (
                f"{waiter} did not receive an available message"
            )
        audit(self.manager)
        compare_store(self.manager, model)
        for first, other in self.guessed:
            assert first.order < other.order, (first, other)
        self.guessed.clear()
        for name in ALL_QUEUES:
            held = sum(x.queue == name and x.lease is not None for x in model.messages)
            is_made = name in self.manager.turns.broker.catalogue.queues
            leases = self.manager.queue(name).leases if is_made else {}
            assert len(leases) == held, (name, held)
        del self.handles[:-HANDLES_MAX]

    def say(self, seat: Seat, message: Any, request_id: int | None = None) -> list[Any]:
        """Sends, runs until the manager is idle, and returns all replies except deliveries."""
        seat.client.send(message)
        self.run()
        heard, seat.heard = seat.heard, []
        assert seat.client.goaway is None, seat.client.goaway
        if request_id is not None:
            assert [answer.request_id for answer in heard] == [request_id], heard
        return heard

    def run(self, ms: int = 0) -> None:
        """Lets time pass until the manager is idle; processes its output."""
        end_groups(self.model)
        self.manager.turn(ms)
        self.manager.rest()
        due_ms = self.manager.turns.broker.next_timer_ms()
        # In this case, a daemon runs a turn immediately.
        if due_ms is not None and due_ms <= self.manager.now().ms:
            self.manager.turn()
            self.manager.rest()
        seats = {seat.client.peer.number: seat for seat in self.seats}
        said, self.manager.said = self.manager.said, []
        for connection, message in said:
            if connection not in seats:
                continue
            seat = seats[connection]
            seat.client.received.clear()
            if type(message) is m.Deliver:
                self._delivered(seat, message)
            elif not self._get_is_over(seat, message):
                seat.heard.append(message)

    def ask(self, seat: Seat, kind: Any, *fields: Any) -> Any:
        """Returns the result of a request, or the code that refuses it."""
        request_id = seat.client.next_id()
        (answer,) = self.say(seat, kind(request_id, *fields), request_id)
        return answer.code if type(answer) is m.Error else answer.value

    # -- deliveries

    def _delivered(self, seat: Seat, deliver: m.Deliver) -> None:
        model, found = self.model, items(deliver)
        waiter = self._waiter(seat, deliver.request_id)
        assert waiter is not None, "a delivery to no reader"
        for delivery in found:
            available = model.available(waiter)
            assert available, (
                f"{waiter} received {name_of(delivery.body)!r}, but should get nothing"
            )
            first = self._first(available, delivery)
            assert delivery.body == first.wish.body, (name_of(delivery.body), first, waiter)
            assert waiter.credit > 0, "more than requested"
            compare_delivery(delivery, first, model.now_ms, browsed=False)
            model.lease(first, waiter, delivery.number)
            self.handles.append(Handle(first, delivery, seat.session))
        if waiter.until_ms is not None:
            model.waiters.remove(waiter)
            least = self.expected.pop(waiter.request_id, 1)
            assert len(found) >= least, f"{len(found)} of {least} delivered"

    def _first(self, available: list[Message], delivery: Delivery) -> Message:
        """Returns the expected delivery, or the actual one if several messages arrived in one step.

        The bench checks the choice when the order of arrival is known.
        """
        first = available[0]
        if first.order[1]:
            return first
        same = [x for x in available if (x.priority, x.order) == (first.priority, first.order)]
        found = next((x for x in same if x.wish.body == delivery.body), first)
        self.guessed += [(found, other) for other in same if other is not found]
        return found

    def _waiter(self, seat: Seat, request_id: int) -> Waiter | None:
        return next(
            (x for x in self.model.waiters if (x.seat, x.request_id) == (seat.number, request_id)),
            None,
        )

    def _get_is_over(self, seat: Seat, message: Any) -> bool:
        """Processes the end of a get without a message; returns whether *message* is one."""
        if type(message) is not m.Ok or message.value is not None:
            return False
        waiter = self._waiter(seat, message.request_id)
        if waiter is None or waiter.until_ms is None:
            return False
        assert waiter.is_over, f"{waiter} ended early"
        assert not self.expected.pop(waiter.request_id, 0), f"{waiter} ended without a message"
        self.model.waiters.remove(waiter)
        return True

    def wait_for(self, waiter: Waiter) -> None:
        """Adds *waiter*."""
        self.model.waiters.append(waiter)
        if waiter.until_ms is None:
            return
        there = len(self.model.available(waiter))
        others = any(
            x is not waiter and x.queue == waiter.queue and x.credit > 0 for x in self.model.waiters
        )
        least = min(there, waiter.credit)
        self.expected[waiter.request_id] = min(least, 1) if others else least
        waiter.is_over = waiter.until_ms <= self.model.now_ms

    # -- restarts

    def restart(self, away_ms: int, *, is_clean: bool, resumes: bool) -> None:
        """Clears the memory by a clean stop or a crash, and restarts after a while.

        Args: resumes: Whether the clients resume their sessions.
        """
        model = self.model
        before_ms = self.manager.now().ms
        if is_clean:
            for seat in self.seats:
                model.hang_up(seat.number, is_stop=True)
            end_groups(model)
            self.manager.restart(away_ms)
        else:
            self.manager.crash(away_ms)
            self.stamp_us = self.durable_us
        now = self.manager.now()
        assert now.ms <= before_ms + max(away_ms, DOWNTIME_MAX_MS)
        assert self.wall_jumped or now.ms == before_ms + min(away_ms, DOWNTIME_MAX_MS)
        model.now_ms = model.groups.now_ms = now.ms
        model.wall_us = now.wall_us
        model.restart(is_clean=is_clean)
        model.time_passes()
        end_groups(model)
        self.expected.clear()
        self._connect(resumes=resumes)

    # -- records

    def record(self, wish: Wish) -> bytes:
        """Returns the record of *wish*. The queue manager may choose the UID."""
        flags = records.FLAG_PRIORITY_OF_QUEUE if wish.priority is None else 0
        flags |= records.FLAG_NOT_PERSISTENT if wish.volatile else 0
        headers = {records.HEADERS: {"colour": wish.colour}} if wish.colour else {}
        return record(
            wish.body,
            uid=wish.uid,
            priority=0 if wish.priority is None else wish.priority,
            correlation_id=wish.correlation_id,
            envelope=headers,
            flags=flags,
            group=wish.group,
            expiry_ms=wish.expiry_ms,
            delay_ms=wish.delay_ms,
        )

    def stamped(self, timestamps: list[int], *, durable: bool) -> None:
        """Learns the assigned UIDs, which must increase whatever the clocks do."""
        for timestamp in timestamps:
            assert timestamp > self.stamp_us
            self.stamp_us = timestamp
        if durable:
            self.durable_us = self.stamp_us

    def selection_fields(self, wanted: Selection) -> dict[str, Any]:
        """Returns the fields of a request that selects *wanted*."""
        fields: dict[str, Any] = {
            "where": wanted.where,
            "correlation_id": wanted.correlation_id,
            "group_id": wanted.group_id,
        }
        if wanted.uid is not None:
            fields["uid"] = records.encode_uid(records.Uid(*wanted.uid))
        return fields

    def browse(self, seat: Seat, queue: str, page: int, wanted: Selection, **extra: Any) -> None:
        """Compares a browse of a queue, page by page, with the model."""
        there = [
            x for x in self.model.on(queue, delayed=bool(extra.get("delayed"))) if wanted.wants(x)
        ]
        there.sort(key=wanted.rank)
        self.browse_all(seat, queue, page, there, **self.selection_fields(wanted), **extra)

    def browse_all(
        self, seat: Seat, queue: str, page: int, there: list[Message], **fields: Any
    ) -> None:
        """Compares a browse of a queue, page by page, with *there*, except expired messages."""
        found, after = [], None
        while True:
            value = self.ask_for(
                seat, m.Browse, queue=queue, after=after, messages_max=page, **fields
            )
            found += value["items"]
            after = value["next"]
            if after is None:
                break
        there = [x for x in there if not x.is_expired(self.model.now_ms)]
        shown = [_delivery(item) for item in found]
        bodies = [name_of(x.body) for x in shown]
        assert bodies == [x.name for x in there], (bodies, there)
        for delivery, message in zip(shown, there, strict=True):
            compare_delivery(delivery, message, self.model.now_ms, browsed=True)

    def ask_for(self, seat: Seat, kind: Any, **fields: Any) -> Any:
        """Works like :meth:`ask`, but takes the fields by name."""
        request_id = seat.client.next_id()
        (answer,) = self.say(seat, kind(request_id=request_id, **fields), request_id)
        return answer.code if type(answer) is m.Error else answer.value


def _delivery(item: bytes) -> Delivery:
    (found,) = items(m.Deliver(0, 0, [item]))
    return found
