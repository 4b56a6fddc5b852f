"""Tests of all events of a queue, compared with a model that is a plain list."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Delivery, Manager, record

LEASE_MS = 1_000


@pytest.mark.slow
@dataclass
class Message:
    arrival: int
    priority: int
    body: bytes
    uid: tuple[str, int]
    delivered: int = 0
    failed: int = 0
    maybe: bool = False
    lease: int = 0  # number of the lease
    holder: int = 0  # session that holds the lease
    deadline_ms: int = 0


@dataclass
class Model:
    """The expected state."""

    manager: Manager
    clients: list[Client] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    # each delivery so far, with its session
    handles: list[tuple[Delivery, int]] = field(default_factory=list)
    sessions: list[int] = field(default_factory=lambda: [0, 1])  # sessions of the clients
    next_session: int = 2
    arrivals: int = 0

    def connect(self, number: int) -> None:
        """Connects both clients. The bits of *number* select which clients resume a session."""
        old, self.clients = self.clients, []
        for who in range(2):
            self.clients.append(self.dial(who, old[who].session if old else b"", number >> who))

    def dial(self, who: int, session: bytes, number: int) -> Client:
        """Connects a client, which resumes its session if *number* is odd."""
        if number % 2:
            return self.manager.connect(f"c{who}", session=session)
        self.sessions[who], self.next_session = self.next_session, self.next_session + 1
        return self.manager.connect(f"c{who}")

    def ready(self) -> list[Message]:
        free = [x for x in self.messages if not x.lease]
        return sorted(free, key=lambda x: (-x.priority, x.arrival))

    def find(self, handle: Delivery) -> Message | None:
        return next((x for x in self.messages if x.arrival == handle.arrival), None)

    def come_back(self, message: Message, failed: bool) -> None:
        message.lease = 0
        message.delivered += 1
        message.failed += failed

    def put(self, number: int) -> None:
        self._put(number, 0)

    def put_long(self, number: int) -> None:
        self._put(number, 9_000)

    def _put(self, number: int, size: int) -> None:
        self.arrivals += 1
        body = b"%d:" % number + bytes(size)
        message = Message(self.arrivals, number % 10, body, ("O", self.arrivals))
        added = record(body, priority=message.priority, uid=message.uid)
        assert self.clients[number % 2].put_records("Q", added) == []
        self.messages.append(message)

    def put_twice(self, number: int) -> None:
        if self.messages:
            uid = self.messages[number % len(self.messages)].uid
            (refused,) = self.clients[number % 2].put_records("Q", record(b"again", uid=uid))
            assert refused.code is ErrorCode.DUPLICATE_MESSAGE

    def get(self, number: int) -> None:
        who, count = number % 2, 1 + number % 5
        now_ms = self.manager.now().ms
        expected = self.ready()[:count]
        found = self.clients[who].get("Q", count, lease_ms=LEASE_MS)
        assert [x.body for x in found] == [x.body for x in expected]
        for message, delivery in zip(expected, found, strict=True):
            maybe = m.STATE_MAYBE_REDELIVERED if message.maybe else 0
            state = m.STATE_REDELIVERED if message.delivered else maybe
            state |= m.STATE_NOTED if message.failed else 0
            assert delivery.state == state
            assert (delivery.delivered, delivery.failed) == (message.delivered, message.failed)
            message.lease, message.holder = delivery.number, self.sessions[who]
            message.deadline_ms = now_ms + LEASE_MS
        self.handles += [(delivery, self.sessions[who]) for delivery in found]

    def ack(self, number: int) -> None:
        self._settle(number, m.ACK, late=False)

    def release(self, number: int) -> None:
        self._settle(number, m.RELEASE, late=False)

    def settle_late(self, number: int) -> None:
        self._settle(number, m.ACK if number % 3 else m.RELEASE, late=True)

    def _settle(self, number: int, action: int, *, late: bool) -> None:
        held = {x.lease for x in self.messages if x.lease}
        fitting = [x for x in self.handles if late or x[0].number in held]
        if not fitting:
            return
        who = number % 2
        handle, handed_to = fitting[number // 2 % len(fitting)]
        message = self.find(handle)
        is_own = handed_to == self.sessions[who]
        lost = message is not None and action == m.ACK and not is_own
        if message is not None and message.lease:
            lost = (message.lease, message.holder) != (handle.number, self.sessions[who])
        codes = self.clients[who].settle(action, handle)
        assert codes == ([ErrorCode.LEASE_LOST] if lost else [])
        if message is None or lost:
            return
        if action == m.ACK:
            self.messages.remove(message)
        elif message.lease:
            self.come_back(message, failed=True)

    def wait(self, number: int) -> None:
        self.manager.turn(number % (2 * LEASE_MS))
        for message in self.messages:
            if message.lease and message.deadline_ms <= self.manager.now().ms:
                self.come_back(message, failed=True)

    def hang_up(self, number: int) -> None:
        """Closes a connection, or leaves this to the next connection, which resumes the session."""
        who, session = number % 2, self.sessions[number % 2]
        old, is_resumed = self.clients[who], number // 2 % 2
        if number % 3 or not is_resumed:
            old.hang_up()
            self.manager.rest()
        self.clients[who] = self.dial(who, old.session, is_resumed)
        self.manager.turn()
        self.manager.rest()
        assert old.goaway is None or old.goaway.code == ErrorCode.SESSION_FENCED
        for message in self.messages:
            if message.lease and message.holder == session:
                self.come_back(message, failed=False)

    def purge(self, number: int) -> None:
        if number % 4:
            return
        gone = [x for x in self.messages if not x.lease]
        assert self.clients[number % 2].ask(m.QueuePurge, "Q") == {"messages": len(gone)}
        self.messages = [x for x in self.messages if x.lease]

    def crash(self, number: int) -> None:
        self.manager.crash()
        for message in self.messages:
            message.lease, message.maybe = 0, True
        self.connect(number)

    def restart(self, number: int) -> None:
        self.manager.restart()
        for message in self.messages:
            if message.lease:
                self.come_back(message, failed=False)
        self.connect(number)

    def drain(self) -> None:
        """Waits until all leases have ended, and checks that all messages are delivered."""
        self.wait(2 * LEASE_MS - 1)
        expected = [x.body for x in self.ready()]
        found: list[Delivery] = []
        while more := self.clients[0].get("Q", 100):
            found += more
            self.clients[0].ack(*more)
        assert [x.body for x in found] == expected
        assert self.clients[0].show("Q")["depth"] == 0


Operation = Callable[[Model, int], None]
OPERATIONS: list[Operation] = [
    *[Model.put] * 3,
    Model.put_long,
    Model.put_twice,
    *[Model.get] * 3,
    *[Model.ack] * 2,
    Model.release,
    Model.settle_late,
    Model.wait,
    Model.hang_up,
    Model.purge,
    Model.crash,
    Model.restart,
]
STEPS = st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 10_000))


@pytest.mark.slow
@given(st.lists(STEPS, min_size=60, max_size=150))
def test_nothing_is_lost_doubled_or_stuck_and_order_holds(
    steps: list[tuple[Operation, int]],
) -> None:
    manager = Manager()
    model = Model(manager)
    model.connect(0)
    model.clients[0].ask(m.QueueCreate, "Q")
    for operation, number in steps:
        operation(model, number)
        audit(manager)
    model.drain()
    audit(manager)
