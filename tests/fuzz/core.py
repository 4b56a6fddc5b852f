"""Hostile peers attack a complete queue manager that also serves one well-behaved worker.

No turn may fail. The stored state and the memory must stay consistent. The worker must not be
affected: each of its messages arrives once, and its connection stays open.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgrd.core.access.login import Login, Logins
from qmgrd.core.access.origin import Origin
from qmgrd.core.context.context import BeginSwitchOver, Dial, Outcome, TakeSnapshot
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.verify.definitions import check_definitions
from qmgrd.verify.finding import Findings
from qmgrd.verify.queue import check_messages
from tests.fuzz.frames import PRODUCERS, STORE_IDS, Maker
from tests.fuzz.peers import FRAME_MAX_BYTES, FarEnd, FarStore, Hostile
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import SECRET
from tests.qmgrd.core.machine.seat import Watched

FRAMES_A_ROUND = 240
HOSTILE_PEERS = 4
QUIET_ID = 2_000_000_000  # id of a queue, which no attacker can guess
TIMERS_MAX = 20_000
CLIENTS = ("app", "app", "\U0001f4a5" * 200, "\x00\u202e\n" * 60, "")
LIMITS = {
    "frame_max_bytes": FRAME_MAX_BYTES,
    "message_max_bytes": 64 * 1024,
    "put_window_messages": 64,
    "put_window_bytes": 512 * 1024,
    "request_window": 32,
    "turn_requests": 64,
    "queues_max": 20,
    "links_max": 3,
    "consumers_per_connection_max": 8,
}
CONSUMERS_AND_GETS_MAX = LIMITS["consumers_per_connection_max"] + LIMITS["request_window"]


class Besieged(Watched):
    """A queue manager in which every turn is checked."""

    look: Callable[[Outcome], None] = staticmethod(lambda outcome: None)

    def turn(self, ms: int = 0) -> Outcome:
        outcome = super().turn(ms)
        self.look(outcome)
        return outcome


class Siege:
    """A queue manager, its attackers, and one worker."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"core {seed}")
        self.maker = Maker(self.rng)
        history = self.rng.choice(({}, {"bytes_max": 64 << 10}, {"age_max_ms": 60_000}))
        self.manager = Besieged(
            limits=LIMITS,
            link={"redial_min_ms": 1, "redial_max_ms": 10},
            accounting=history,
            queue_defaults={
                "depth_max": 200,
                "leases_max": 100,
                "accounting": self.rng.choice(("on", "off")),
            },
        )
        assert self.manager.replay is not None
        self.manager.replay.may_alter = True
        self.far_stores: dict[str, FarStore] = {}
        self.peers: list[Hostile] = []
        self.logins = Logins(lambda: self.manager.turns.broker.users, SECRET)
        self.last_number = 1_000_000
        self.sent = 0
        self.done = 0
        self.manager.look = self._look
        # An attacker must not guess the worker's connection and close it.
        self.manager._connections = QUIET_ID
        self.worker = self.manager.connect("worker")
        self._make_quiet_queue()
        self._define()

    def _make_quiet_queue(self) -> None:
        """Creates the queue of the worker under an id that no forged handle contains."""
        for queue_id in (QUIET_ID, 1):
            rows.put(self.manager.store.begin(), keys.NEXT_QUEUE, queue_id.to_bytes(4, "big"))
            self.manager.store.commit()
            if queue_id == QUIET_ID:
                # An attacker's template must not cause the deletion of the queue.
                self.worker.ask(m.QueueCreate, "QUIET", {"unused_expiry_ms": 0})

    def _define(self) -> None:
        """Creates the objects that attackers may have deleted."""
        for kind, *fields in (
            (m.LinkCreate, "NYC", {"addresses": ["nyc:7470"]}),
            (m.LinkStart, "NYC"),
            (m.QueueCreate, "Q1"),
            (m.QueueCreate, "Q2"),
            (m.QueueCreate, "Q1@NYC"),
            (m.Subscribe, "a/#", "C:s1", "", {"depth_max": 50, "redelivery_limit": 1}),
            (m.Subscribe, "a/+", "C:s2"),
            (m.Subscribe, "a/b", ":p@NYC"),
        ):
            with suppress(RequestError):
                self.worker.ask(kind, *fields)

    def run(self) -> None:
        while self.sent < FRAMES_A_ROUND:
            frames = self._peer().frames()
            self.peers[-1].write(b"".join(frames))
            self.sent += len(frames)
            if self.rng.random() < 0.3:
                self.manager.turn(self.rng.choice((0, 0, 1, 50, 1_000, 40_000)))
            if self.rng.random() < 0.05:
                self._work()
        for peer in self.peers:
            if peer.is_open:
                peer.hang_up()
        for _ in range(20):
            self.manager.turn(10)
        self._work()
        audit(self.manager)
        self._verify()

    def _verify(self) -> None:
        """Verifies the store between turns."""
        found, store = Findings(), self.manager.store
        check_messages(found, store, check_definitions(found, store))
        faults = [one for one in found.kept if "QUIET has id" not in one.what]
        assert not faults, faults[:3]

    def _peer(self) -> Hostile:
        """Returns a random connected attacker, and moves it to the end of ``peers``."""
        self.peers = [peer for peer in self.peers if peer.is_open]
        if len(self.peers) < HOSTILE_PEERS:
            self._connect()
        else:
            self.rng.shuffle(self.peers)
        return self.peers[-1]

    def _number(self) -> int:
        self.last_number += 1
        return self.last_number

    def _connect(self) -> None:
        """Connects an attacker with an open stream.

        Without a stream, all its puts would be refused.
        """
        rng, number = self.rng, self._number()
        login = Login(self.logins, Origin("10.0.0.1"), "nonceOfTheServer")
        peer = Hostile(self.manager, number, self.maker, login=login)
        self.peers.append(peer)
        if rng.random() < 0.1:
            return  # The attacker begins without a hello.
        if rng.random() < 0.2:
            frames = self.maker.handshake()
            self.sent += len(frames)
            peer.write(b"".join(frames))
            return
        if rng.random() < 0.3:
            store_id = rng.choice(STORE_IDS)
            name = rng.choice(("NYC", "BOS", "LAX"))
            peer.say(m.Hello(m.MAGIC, 1, 1, "queue-manager", name, [], store_id))
            peer.say(m.LinkOpen(1, store_id + rng.randrange(2).to_bytes(8, "big"), 1, 1))
        else:
            peer.say(m.Hello(m.MAGIC, 1, 1, "client", rng.choice(CLIENTS)))
            own = number.to_bytes(16, "big")
            peer.say(m.ProducerOpen(1, rng.choice((own, own, PRODUCERS[0]))))
        self.manager.turn()
        if not peer.is_open:
            self.peers.remove(peer)
            self._connect()

    def _look(self, outcome: Outcome) -> None:
        """Delivers the output of a turn, runs its effects, and checks the result."""
        peers = {peer.peer.number: peer for peer in self.peers}
        for number, message in outcome.sends:
            if number in peers and peers[number].is_open:
                peers[number].read(peers[number].peer.encode(message))
        for number, goaway in outcome.closes:
            if number in peers and peers[number].is_open:
                peers[number].read(peers[number].peer.encode(goaway))
                peers[number].hang_up()
        for effect in outcome.effects:
            self._do(effect)
        self._check_memory()
        self._check_links()

    def _do(self, effect: Any) -> None:
        intake = self.manager.turns.intake
        if isinstance(effect, TakeSnapshot):
            connection, request_id = effect.connection, effect.request_id
            intake.event(0, lambda broker: broker.answer_snapshot(connection, request_id, {}))
        elif isinstance(effect, BeginSwitchOver):
            intake.event(0, lambda broker: broker.admin.answer_switch_over(effect, {}))
        elif isinstance(effect, Dial):
            if self.rng.random() < 0.2:
                intake.event(0, lambda broker: broker.dial_failed(effect, "no listener"))
                return
            store = self.far_stores.setdefault(effect.link, FarStore())
            end = FarEnd(self.manager, self._number(), self.maker, effect, store)
            self.peers.append(end)

    def _check_memory(self) -> None:
        broker = self.manager.turns.broker
        assert len(broker.context.timers._heap) < TIMERS_MAX
        for session in broker.sessions.values():
            waiting = len(session.consumers)
            assert waiting <= CONSUMERS_AND_GETS_MAX, (
                f"{waiting} consumers and gets at the same time"
            )

    def _check_links(self) -> None:
        """Checks that a link holds ids only after its commit id.

        Holes are allowed only for expired or lost messages.
        """
        for link in self.manager.turns.broker.catalogue.links.values():
            lane = keys.lane(link.queue.id, keys.LANE_READY)
            ids = [keys.place(key)[1] for key, _ in self.manager.scan(lane)]
            expected = range(link.outbox.commit_id + 1, link.queue.counters.next_arrival)
            gone = link.queue.counters.expired + link.queue.counters.lost
            holes = len(expected) - len(ids)
            assert set(ids) <= set(expected), f"link {link.name} holds {ids} instead of {expected}"
            assert holes <= gone, f"link {link.name} lacks {holes}, but {gone} expired or were lost"

    def _work(self) -> None:
        """Puts, gets and acknowledges messages, as in normal operation."""
        self.done += 1
        body = str(self.done).encode()
        self._define()
        self.worker.put("QUIET", body)
        (found,) = self.worker.get("QUIET")
        assert found.body == body
        assert self.worker.ack(found) == []


def fuzz_core(seed: int) -> int:
    """Runs the round of *seed*; returns the number of frames that it sent.

    Raises:
        AssertionError: The state is inconsistent.
        TurnFailed: A turn hit a bug.
    """
    siege = Siege(seed)
    siege.run()
    return siege.sent
