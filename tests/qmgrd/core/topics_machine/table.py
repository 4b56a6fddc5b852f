"""The workbench of the rules: a queue manager, its clients, the model, and a step.

    begin ─▶ the rule changes the model ─▶ say: the manager receives it, and runs until it is idle
          ─▶ each message of the manager is compared with the model ─▶ end: so is all that it shows

The model, and not this module, decides what is correct.
"""

from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.record import Uid
from qmgrd.core.jobs.due_work import POSTPONED_MAX_MS
from tests.qmgrd.core.harness import Client, Delivery, Manager, items, record
from tests.qmgrd.core.machine.seat import SessionId, Watched
from tests.qmgrd.core.topics_machine.compare import compare_all, compare_delivery
from tests.qmgrd.core.topics_machine.model import Model
from tests.qmgrd.core.topics_machine.things import Copy, Publication, Subscription, Wish

SEATS = 3
HANDLES_MAX = 40  # number of handles that the table remembers
STOPS_MAX = 30  # number of stops of the clock in one step


@dataclass(eq=False)
class Handle:
    """A handle that a session received, or a forged handle."""

    subscription: Subscription
    copy: Copy
    delivery: Delivery
    session: SessionId | None  # session that received the handle; None: a forgery


@dataclass
class Seat:
    """A client, across all its connections."""

    number: int
    client: Client
    stream: int = 0
    next_id: int = 1
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


@dataclass
class Expected:
    """The deliveries that a consumer or a get must receive in this step."""

    subscription: Subscription
    copies: list[Copy]


class Table:
    """Runs the steps of rules.

    Invariant: between two steps the manager is idle, and its state matches the model.
    """

    def __init__(self) -> None:
        self.manager = Watched()
        self.model = Model(self.manager.now().ms)
        self.seats: list[Seat] = []
        self.handles: list[Handle] = []
        self.bodies = 0
        self.producers = 0
        self.expected: dict[tuple[int, int], Expected] = {}
        self.is_amid = False  # True while a step runs, and after a step that failed
        self.seats = [Seat(number, self.manager.connect(f"c{number}")) for number in range(SEATS)]
        for seat in self.seats:
            self._open(seat)

    def _open(self, seat: Seat) -> None:
        self.producers += 1
        producer_id = f"{self.producers:016}".encode()
        seat.stream, seat.next_id = self.ask(seat, m.ProducerOpen, producer_id, False)[0], 1

    # -- a step

    def begin(self) -> Model:
        """Begins a step."""
        self.is_amid = True
        now = self.manager.now()
        self.model.now_ms, self.model.wall_us = now.ms, now.wall_us
        return self.model

    def end(self) -> None:
        """Compares all answers of the manager with the model."""
        self.learn_expired()
        compare_all(self)
        del self.handles[:-HANDLES_MAX]
        self.is_amid = False

    def say(self, seat: Seat, message: m.Message) -> list[Any]:
        """Sends, runs until the manager is idle, and returns all replies except deliveries."""
        seat.client.send(message)
        self.run()
        heard, seat.heard = seat.heard, []
        assert seat.client.goaway is None, seat.client.goaway
        return heard

    def ask(self, seat: Seat, kind: Any, *fields: Any, **named: Any) -> Any:
        """Returns the result of a request, or the code that refuses it."""
        request_id = seat.client.next_id()
        (answer,) = self.say(seat, kind(request_id, *fields, **named))
        assert answer.request_id == request_id, answer
        return answer.code if type(answer) is m.Error else answer.value

    def run(self, ms: int = 0) -> None:
        """Lets time pass until the manager is idle; processes its output."""
        self.hand_out()
        self.manager.turn(ms)
        self._rest()
        self._listen()

    def _rest(self) -> None:
        self.manager.rest()
        due_ms = self.manager.turns.broker.next_timer_ms()
        # In this case, a daemon runs a turn immediately.
        if due_ms is not None and due_ms <= self.manager.now().ms:
            self.manager.turn()
            self.manager.rest()

    def hand_out(self) -> None:
        """Lets the model deliver the available copies to consumers that have credit."""
        model = self.model
        for found in model.subscriptions.values():
            consumer = found.consumer
            if consumer is not None and consumer.credit:
                copies = found.available(model.now_ms)[: consumer.credit]
                consumer.credit -= len(copies)
                self.expect(found, consumer.seat, consumer.request_id, copies, consumer.lease_ms)

    def expect(
        self, found: Subscription, seat: int, request_id: int, copies: list[Copy], lease_ms: int
    ) -> None:
        """Expects a delivery of *copies* to a consumer or a get in this step."""
        if copies:
            self.expected[seat, request_id] = Expected(found, copies)
            self.model.lease(copies, seat, lease_ms)

    def _listen(self) -> None:
        """Compares each message of the manager with the model."""
        seats = {seat.client.peer.number: seat for seat in self.seats}
        said, self.manager.said = self.manager.said, []
        delivered: dict[tuple[int, int], list[Delivery]] = {}
        for connection, message in said:
            if connection not in seats:
                continue
            seat = seats[connection]
            seat.client.received.clear()
            if type(message) is m.Deliver:
                place = seat.number, message.request_id
                delivered.setdefault(place, []).extend(items(message))
            elif type(message) is m.Ended:
                assert (seat.number, message.request_id) in self.model.ended, message
                self.model.ended.remove((seat.number, message.request_id))
            else:
                seat.heard.append(message)
        assert not self.model.ended, f"no report of {self.model.ended}"
        self._delivered(delivered)

    def _delivered(self, delivered: dict[tuple[int, int], list[Delivery]]) -> None:
        expected, self.expected = self.expected, {}
        for place, found in delivered.items():
            wanted = expected.pop(place, None)
            bodies = [delivery.body for delivery in found]
            assert wanted is not None, f"{place} received {bodies}, but should get nothing"
            there = [copy.publication.body for copy in wanted.copies]
            assert bodies == there, (wanted.subscription.name, bodies, there)
            for delivery, copy in zip(found, wanted.copies, strict=True):
                compare_delivery(delivery, copy, self.model.now_ms)
                if copy.lease is not None:
                    copy.lease.number = delivery.number
                session = self.seats[place[0]].session
                self.handles.append(Handle(wanted.subscription, copy, delivery, session))
        left = {place: [x.publication.body for x in one.copies] for place, one in expected.items()}
        assert not left, f"not delivered: {left}"

    # -- publishing

    def record(self, wish: Wish) -> bytes:
        """Returns the record of *wish*, with a unique body."""
        self.bodies += 1
        body = b"" if wish.is_empty else b"body %d" % self.bodies
        flags = records.FLAG_PRIORITY_OF_QUEUE if wish.priority is None else 0
        flags |= records.FLAG_RETAINED if wish.is_retained else 0
        flags |= records.FLAG_NOT_PERSISTENT if wish.is_volatile else 0
        headers = {records.HEADERS: {"colour": wish.colour}} if wish.colour else {}
        return record(
            body,
            uid=wish.uid,
            priority=wish.priority or 0,
            envelope=headers,
            flags=flags,
            expiry_ms=wish.expiry_ms,
            delay_ms=wish.delay_ms,
        )

    def publish(self, seat: Seat, wishes: list[Wish], *, crashes: bool = False) -> None:
        """Publishes *wishes* to one topic in one frame, perhaps followed by a crash."""
        self.sweep()
        model, topic = self.begin(), wishes[0].topic
        data = [self.record(wish) for wish in wishes]
        fitting = len(model.fitting(topic))
        made = [
            model.publish(wish, records.decode(one).body)
            for wish, one in zip(wishes, data, strict=True)
        ]
        first_id, seat.next_id = seat.next_id, seat.next_id + len(wishes)
        message = m.Put(seat.stream, first_id, first_id - 1, f"/{topic}", data)
        if not crashes:
            answers = self.say(seat, message)
        else:
            seat.client.send(message)
            self.manager.turn()
            answers = [x for _, x in self.manager.said if type(x) is m.Committed]
        (answer,) = answers
        assert type(answer) is m.Committed
        assert answer.commit_id == first_id + len(wishes) - 1
        self._learn_uids(answer, first_id, made)
        refused = [first_id + at for at, one in enumerate(made) if one is None]
        assert [found[0] for found in answer.refused] == refused
        matched = {first + i: n for first, count, n in answer.matched for i in range(count)}
        for seq_id in set(range(first_id, first_id + len(made))) - set(refused):
            assert matched.get(seq_id, 0) == fitting, (matched, fitting)

    def _learn_uids(
        self, answer: m.Committed, first_id: int, made: list[Publication | None]
    ) -> None:
        for first, timestamp, count in answer.stamped:
            for offset in range(count):
                publication = made[first - first_id + offset]
                assert publication is not None
                assert publication.uid == ("", 0), "the publisher chose the UID"
                publication.uid = "QM1", timestamp + offset
        known = [x.uid for x in self.model.publications]
        assert ("", 0) not in known, "a publication has no UID"
        given = [x for x in known if x[0] == "QM1"]
        assert len(given) == len(set(given)), "C1: each has a separate UID"

    def trailer(self, publication: Publication) -> bytes:
        """Returns the encoded UID of a publication."""
        return records.encode_uid(Uid(*publication.uid))

    # -- time, and ends

    def pass_time(self, ms: int) -> None:
        """Lets time pass, and stops the clock at each due time."""
        model = self.begin()
        end_ms = model.now_ms + ms
        for stop_ms in [*model.due_until(end_ms)[:STOPS_MAX], end_ms]:
            step_ms = stop_ms - self.manager.now().ms
            if step_ms <= 0:
                continue
            model.now_ms, model.wall_us = stop_ms, model.wall_us + 1_000 * step_ms
            model.time_passes()
            self.run(step_ms)
            self.learn_expired()

    def learn_expired(self) -> None:
        """Learns which expired copies the manager has removed so far."""
        model = self.model
        old = [
            (x, copy)
            for x in model.subscriptions.values()
            for copy in x.copies
            if copy.is_expired(model.now_ms) and copy.lease is None
        ]
        for found, copy in old:
            value = self.ask(self.seats[0], m.TopicLacks, self.trailer(copy.publication))
            rows = value["subscriptions"] if isinstance(value, dict) else []
            if found.name not in [row["subscription"] for row in rows]:
                found.copies.remove(copy)
                found.expired += 1
            else:
                assert copy.state != "parked", "parked copies expire in time"

    def sweep(self) -> None:
        """Waits until expired copies are removed. After a crash, leased copies take longer.

        Until they are removed, expired copies use space, and an eviction may skip them.
        """
        if any(x.is_expired(self.begin().now_ms) and x.lease is None for x in self._copies()):
            self.pass_time(POSTPONED_MAX_MS)
        assert not any(x.is_expired(self.model.now_ms) and x.lease is None for x in self._copies())

    def _copies(self) -> list[Copy]:
        return [copy for x in self.model.subscriptions.values() for copy in x.copies]

    def hang_up(self, seat: Seat, *, resumes: bool) -> None:
        """Closes a connection, and connects again; with *resumes*, in the same session."""
        self.begin().hang_up(seat.number)
        self.model.ended = {x for x in self.model.ended if x[0] != seat.number}
        seat.client.hang_up()
        self.run()
        seat.connect(self.manager, resumes=resumes)
        self._open(seat)

    def restart(self, away_ms: int, *, is_clean: bool, resumes: bool) -> None:
        """Clears the memory by a clean stop or a crash, and restarts after a while.

        Args: resumes: Whether the clients resume their sessions.
        """
        model = self.begin()
        if is_clean:
            for seat in self.seats:
                model.hang_up(seat.number)
            model.expire_volatile()
            model.ended.clear()
            self.manager.restart(away_ms)
        else:
            model.crash()
            self.manager.crash(away_ms)
        self.begin()
        model.lose_volatile()
        model.started()
        model.time_passes()
        self.manager.turn()
        self._rest()
        for seat in self.seats:
            seat.connect(self.manager, resumes=resumes)
        self.manager.said.clear()
        for seat in self.seats:
            self._open(seat)
