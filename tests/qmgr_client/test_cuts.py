"""Tests that no message is lost or duplicated if the connection is cut at any byte.

Invariants for every put and every message:

1. A put has exactly one result.
2. A stored message is on the queue exactly once until its ack is answered. Then it is deleted and
   is never delivered again. A refused message is never delivered.
3. The client never breaks the protocol, for all sizes of windows.

The invariants also hold if the queue WIDE is a subscription that receives publications.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.message import Message, Outgoing, PutResult, decode, encode
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import PutDone, RequestDone, RequestFailed, SettleDone
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.daemon import Daemon

PRODUCER = b"p" * 16
WAIT_MAX_MS = 500
QUEUES = {"WIDE": {}, "NARROW": {"depth_max": 3}}


class World:
    """One client, one queue manager, and the results that the client received."""

    def __init__(
        self, window: int, window_bytes: int, requests: int, *, coalesce: bool, publishes: bool
    ) -> None:
        self.wide, self.topic = ("S:wide", "/wide/1") if publishes else ("WIDE", "WIDE")
        self.daemon = Daemon(
            {
                "queue_manager": {"name": "QM1"},
                "limits": {
                    "put_window_messages": window,
                    "put_window_bytes": window_bytes,
                    "request_window": requests,
                },
            }
        )
        self.core = ClientCore("test", PRODUCER, coalesce=coalesce)
        self.sent = b""  # bytes in transit from the client
        self.puts: dict[int, bytes] = {}  # maps the ticket of each put to its body
        self.results: dict[int, PutResult | RequestError] = {}
        self.acks: dict[int, bytes] = {}  # maps the ticket of each ack to its body
        self.acked: set[bytes] = set()
        self.held: list[Message] = []
        self.requests: dict[int, Any] = {}
        self.consumers: list[int] = []
        self.reconnect()
        for queue, attributes in QUEUES.items():
            self.core.request(self.now_ms, m.QueueCreate, queue, attributes)
            self.settle_down()
        if publishes:
            endless = {"redelivery_limit": 65_534}
            self.core.request(self.now_ms, m.Subscribe, "wide/#", self.wide, "", endless)
            self.settle_down()

    @property
    def now_ms(self) -> int:
        return self.daemon.now_ms

    def reconnect(self) -> None:
        self.cut()
        self.daemon.accept()
        self.core.connected(self.now_ms)

    def cut(self) -> None:
        self.core.connection_lost()
        self.daemon.cut()
        self.sent = b""
        self.note()

    def crash(self) -> None:
        """Kills the queue manager. Messages in its intake are lost, but the store is kept."""
        self.cut()
        self.daemon.start()
        self.reconnect()

    def put(self, queue: str, size: int) -> None:
        body = b"%d." % len(self.puts) + b"." * size
        target = self.topic if queue == "WIDE" else queue
        self.puts[self.core.put(target, encode(Outgoing(body)))] = body

    def take(self) -> None:
        for ticket in self.consumers:
            message = self.core.next_message(ticket, self.now_ms)
            if message is not None:
                self.handed(message)

    def handed(self, message: Message) -> None:
        assert message.body in self.puts.values()
        assert message.body not in self.acked, "delivered again after the ack was answered"
        for ticket, body in self.puts.items():
            refused = body == message.body and isinstance(self.results.get(ticket), RequestError)
            assert not refused, "a refused put was delivered"
        self.held.append(message)

    def finish(self, action: int) -> None:
        if self.held:
            message = self.held.pop(0)
            ticket = self.core.settle(message, action)
            if action == m.ACK:
                self.acks[ticket] = message.body

    def get(self, count: int, wait_ms: int) -> None:
        self.core.request(self.now_ms, m.Get, self.wide, count, wait_ms)

    def consume(self, prefetch: int) -> None:
        self.consumers.append(self.core.consume(self.wide, prefetch))

    def cancel(self) -> None:
        if self.consumers:
            self.core.cancel(self.consumers.pop(0))

    def wait(self, wait_ms: int) -> None:
        self.daemon.now_ms += wait_ms

    def flow(self, to_daemon: int, to_client: int) -> int:
        """Lets at most the given numbers of bytes arrive. Returns the total that arrived."""
        while data := self.core.data_to_send(self.now_ms):
            self.sent += data
        arrived, self.sent = self.sent[:to_daemon], self.sent[to_daemon:]
        self.daemon.receive(arrived)  # This call raises if invariant 3 is broken.
        answers = self.daemon.answers
        self.core.receive(answers[:to_client], self.now_ms)
        self.daemon.answers = answers[to_client:]
        self.note()
        return len(arrived) + len(answers[:to_client])

    def note(self) -> None:
        for event in self.core.events():
            match event:
                case PutDone(ticket, result):
                    assert ticket not in self.results, "invariant 1"
                    self.results[ticket] = result
                case SettleDone(ticket, error):
                    body = self.acks.pop(ticket, None)
                    if error is None and body is not None:
                        self.acked.add(body)
                    assert error is None or error.code == ErrorCode.LEASE_LOST
                case RequestDone(ticket, value):
                    self.requests[ticket] = value
                    if type(value) is list:
                        for message in value:
                            self.handed(message)
                case RequestFailed(_, error):
                    raise AssertionError(error)

    def settle_down(self) -> None:
        """Delivers all bytes in transit until both sides are idle."""
        for _ in range(1_000):
            moved = self.flow(1 << 30, 1 << 30)
            self.daemon.turn()
            if not moved and not self.daemon.answers and not self.daemon.turns.has_work:
                return
        raise AssertionError("no rest")

    def on_queues(self) -> list[bytes]:
        """Browses the queues and returns the bodies of all messages."""
        bodies = []
        for queue in (self.wide, "NARROW"):
            ticket = self.core.request(self.now_ms, m.Browse, queue, None, 10_000)
            self.settle_down()
            bodies += [decode(item, queue, 0).body for item in self.requests[ticket]["items"]]
        return bodies


def audit(world: World) -> None:
    """Completes all operations, and checks the invariants."""
    world.reconnect()
    world.settle_down()
    world.daemon.now_ms += WAIT_MAX_MS + 1  # Gets may have filled the request window.
    world.settle_down()
    assert set(world.results) == set(world.puts), "invariant 1"
    assert world.core.outstanding == 0
    stored = {world.puts[t] for t, r in world.results.items() if isinstance(r, PutResult)}
    found = world.on_queues()
    assert len(found) == len(set(found)), "invariant 2: duplicated"
    assert set(found) == stored - world.acked, "invariant 2"
    uids = [r.uid for r in world.results.values() if isinstance(r, PutResult) and r.uid]
    assert len(uids) == len(set(uids))
    for result in world.results.values():
        if isinstance(result, PutResult):
            assert result.uid is not None or result.resent
            assert result.subscriptions in (None, 1)
        else:
            assert result.code in (ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_UNKNOWN)


BYTES = st.one_of(st.just(1 << 30), st.integers(0, 300))
PUT = st.tuples(st.just("put"), st.sampled_from([*QUEUES, "NOWHERE"]), st.integers(0, 400))
BURST = st.tuples(st.just("burst"), st.integers(2, 12))
FLOW = st.tuples(st.just("flow"), BYTES, BYTES)
RUN, CUT = st.just(("run",)), st.just(("cut",))
STEP = st.one_of(
    PUT,
    BURST,
    FLOW,
    RUN,
    CUT,
    st.tuples(st.sampled_from(["turn", "crash", "take", "ack", "ack", "release", "cancel"])),
    st.tuples(st.just("get"), st.integers(1, 3), st.integers(0, WAIT_MAX_MS)),
    st.tuples(st.just("consume"), st.integers(1, 5)),
    st.tuples(st.just("wait"), st.integers(1, 40_000)),
)
# Interesting cases are rare: some messages in flight arrive, and then the connection is cut.
UNDER_WAY = st.one_of(PUT, BURST, st.just(("ack",)), st.just(("take",)))
SCENE = st.one_of(
    STEP.map(lambda step: [step]),
    st.tuples(
        RUN,
        UNDER_WAY,
        UNDER_WAY,
        FLOW,
        st.sampled_from([("turn",), ("run",)]),
        FLOW,
        st.sampled_from([("cut",), ("crash",)]),
    ).map(list),
)


DO: dict[str, Callable[..., Any]] = {
    "put": World.put,
    "burst": lambda world, count: [world.put("WIDE", 10) for _ in range(count)],
    "flow": World.flow,
    "run": World.settle_down,
    "turn": lambda world: world.daemon.turn(),
    "cut": World.reconnect,
    "crash": World.crash,
    "take": World.take,
    "ack": lambda world: world.finish(m.ACK),
    "release": lambda world: world.finish(m.RELEASE),
    "get": World.get,
    "consume": World.consume,
    "cancel": World.cancel,
    "wait": World.wait,
}


@given(
    window=st.integers(1, 6),
    window_bytes=st.sampled_from([1_024, 1 << 24]),
    requests=st.integers(1, 6),
    coalesce=st.booleans(),
    publishes=st.booleans(),
    scenes=st.lists(SCENE, min_size=1, max_size=25),
)
def test_nothing_is_lost_or_doubled_wherever_it_is_cut(
    window: int,
    window_bytes: int,
    requests: int,
    coalesce: bool,
    publishes: bool,
    scenes: list[list[tuple[Any, ...]]],
) -> None:
    world = World(window, window_bytes, requests, coalesce=coalesce, publishes=publishes)
    for step in chain.from_iterable(scenes):
        DO[step[0]](world, *step[1:])
    audit(world)
    # Invariant 2: all remaining messages are delivered, and afterwards the queues are empty.
    for _ in range(200):
        if not world.core.outstanding and not world.on_queues() and not world.held:
            break
        world.daemon.now_ms += 40_000  # Messages that the application dropped are delivered again.
        world.core.request(world.now_ms, m.Get, world.wide, 100)
        world.core.request(world.now_ms, m.Get, "NARROW", 100)
        world.settle_down()
        world.take()
        while world.held:
            world.finish(m.ACK)
        world.settle_down()
    audit(world)
    assert world.on_queues() == []


def test_opening_that_was_long_under_way_does_not_send_the_live_connection_away() -> None:
    """The intake serves connections in turn, so it may handle a dead connection's request late."""
    world = World(6, 1 << 24, 6, coalesce=True, publishes=False)
    for _ in range(4):
        world.put("WIDE", 3)
    world.settle_down()
    world.get(4, 0)
    world.settle_down()
    assert len(world.held) == 4
    world.reconnect()
    world.settle_down()
    for _ in range(3):  # three frames of acks and one ProducerOpen
        world.finish(m.ACK)
        world.flow(1 << 30, 0)
    world.put("WIDE", 3)
    world.flow(1 << 30, 0)
    world.reconnect()  # The acks now share a frame.
    world.flow(1 << 30, 1 << 30)
    world.flow(1 << 30, 0)
    world.daemon.turn()  # This request must not cause PRODUCER_FENCED.
    audit(world)
