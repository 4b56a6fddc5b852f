"""A queue manager in the simulator: the production core in a shell like qmgrd.daemon.

daemon.py and net/session.py use sockets, an event loop and clocks. This module uses wires and the
simulated clock instead. Keep the three modules consistent.
"""

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.boot import Boot
from qmgrd.core.context.context import Dial, Outcome
from qmgrd.core.layout.clock import StoreClock
from qmgrd.core.layout.kv import Now
from qmgrd.core.peer import Peer, goodbye
from qmgrd.core.turn import TurnFailed, Turns
from tests.qmgrd.core.replay import Replay
from tests.sim.known_login import KnownLogin
from tests.sim.store import Change, Crash, WatchedStore
from tests.sim.wire import Wire

if TYPE_CHECKING:
    from tests.sim.lab import Lab

KEEP_OUT_MS = 60_000
LOOK_NS = 100_000  # At each reading, the clock of turns advances by this time.


class Injected(Exception):
    """Raised by a bug that the simulator plants in a turn."""


class PeerPort:
    """A queue manager's end of a connection, like net/session.py without asyncio."""

    def __init__(self, node: "Node", dial: Dial | None = None) -> None:
        self.node = node
        self.wire: Wire | None = None
        self.gone = False
        self._why = "the peer closed the connection"
        node.connections += 1
        self.peer = Peer(
            node.connections,
            node.turns.intake,
            node.config.limits,
            node.welcome,
            node.turns.tokens,
            node.lab.now_ms,
            dial=dial,
            admit=node.admit,
            login=None if dial else KnownLogin(node),
        )
        self.boot = node.turns

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        self.node.ports[self.peer.number] = self
        if self.peer.dial:
            self.write(self.peer.hello())

    def received(self, data: bytes) -> None:
        try:
            answers = self.peer.receive(data, self.node.lab.now_ms)
        except RemoteProtocolError as error:
            self.node.lab.watch.protocol_broken(self.node, self.peer, error)
            self.say_goodbye(goodbye(error))
            return
        if answers:
            self.write(answers)
        if self.peer.goaway is not None:
            self._why = f"the peer left: {self.peer.goaway.text}"
            self.close()

    def lost(self, why: str) -> None:
        self.gone = True
        self.node.ports.pop(self.peer.number, None)
        self.peer.closed(f"{self._why}: {why}")

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes in flight to the peer, which has not read them."""
        return len(self.wire.flow_from(self).data) if self.wire is not None else 0

    def write(self, data: bytes) -> None:
        if self.wire is not None:
            self.peer.wrote(len(data))
            self.wire.send(self, data)

    def close(self) -> None:
        if self.wire is not None:
            self.wire.close(self)

    def say_goodbye(self, goaway: m.Goaway) -> None:
        self._why = goaway.text
        self.peer.goaway = goaway
        self.write(self.peer.encode(goaway))
        self.close()

    def poll(self) -> None:
        try:
            self.write(self.peer.poll(self.node.lab.now_ms))
        except RemoteProtocolError as error:
            self.say_goodbye(goodbye(error))


class Node:
    """A queue manager, up or down. Invariant: while it is down, it has no ports and no dials."""

    turns: Turns

    def __init__(self, lab: "Lab", config: Config, turns_type: type[Turns] = Turns) -> None:
        self.lab = lab
        self.config = config
        self.name = config.queue_manager.name
        self.store = WatchedStore(self._durable)
        self._clock_ns = 0
        self.replay = Replay(self.name, config)
        self.store_id = hashlib.sha256(self.name.encode()).digest()[:16]
        self.turns_type = turns_type
        self.starts = 0
        self.up = False
        self.ports: dict[int, PeerPort] = {}
        self.is_stopping = False  # True while it waits until its peers have ended their work
        self.connections = 0
        self.wall_shift_us = 0  # manual changes of this machine's clock
        self.outcomes = 0
        self.idle_turns = 0  # consecutive turns at the same time that had no effect
        self._turned_ms = 0
        self._kept_out: dict[str, int] = {}

    def allow(self, name: str) -> None:
        """Allows the queue manager *name* to open links to this one, from the next turn on."""

        def allow(broker: Broker) -> None:
            broker.context.peers.allow(name, b"")

        self.turns.intake.event(0, allow)

    def _durable(self, changes: list[Change]) -> None:
        self.lab.watch.durable(self, changes)
        if self.lab.user_law is not None:
            self.lab.user_law.durable(self, changes)
        self.replay.durable(changes, self.store.rows)

    def _stopped(self, *, clean: bool) -> None:
        self.lab.watch.stopped(self, clean=clean)
        self.replay.stopped(clean=clean)

    def start(self, crash: str = "") -> None:
        """Boots from the store, or crashes before or after the boot is durable."""
        self.store.crash = ""
        if self.starts:
            self.store.reopen()
        self.store.crash = crash
        self.starts += 1
        # The random parts are the id of a new store, and the salt of any other start.
        salt = hashlib.sha256(self.store_id + bytes([self.starts % 256, self.starts // 256]))
        chance = self.store_id if self.starts == 1 else salt.digest()[:16]
        try:
            self.turns = self.turns_type(
                self.config,
                self.store,
                self._set_clock,
                chance,
                hashlib.sha256(chance).digest(),
                clock_ns=self._look,
                unsent_of=self._unsent_of,
            )
        except Crash:
            self.store.abort()
            self._stopped(clean=False)
            return
        self.up = True
        self._kick = True  # As in the daemon, a turn always follows immediately.
        self.poll_ms = self.lab.now_ms

    def _look(self) -> int:
        """Returns the time by which turns are measured. Each arrival and slice takes one step."""
        self._clock_ns += LOOK_NS
        return self._clock_ns

    def _unsent_of(self, connection: int) -> int:
        port = self.ports.get(connection)
        return port.unsent_bytes if port is not None else 0

    def _set_clock(self, boot: Boot) -> Now:
        wall_us = self.lab.wall_us(self)
        downtime_max_ms = self.config.queue_manager.downtime_max_ms
        self._clock = StoreClock(
            boot.clock_ms, boot.wall_us, downtime_max_ms, self.lab.now_ms, wall_us
        )
        limits = self.config.limits
        self.welcome = m.Welcome(
            m.VERSION,
            self.name,
            boot.store_id,
            boot.number,
            [],
            "sim",
            limits.frame_max_bytes,
            limits.message_max_bytes,
            limits.put_window_messages,
            limits.put_window_bytes,
            limits.request_window,
            limits.heartbeat_ms,
            limits.liveness_ms,
        )
        return self.now()

    def now(self) -> Now:
        return self._clock.now(self.lab.now_ms, self.lab.wall_us(self))

    @property
    def wanted(self) -> bool:
        """True if a turn is due."""
        if not self.up:
            return False
        if self._kick or self.turns.has_work:
            return True
        due_ms = self.turns.next_timer_ms()
        return due_ms is not None and due_ms <= self.now().ms

    def next_ms(self) -> int | None:
        """Returns the simulated time at which a timer needs a turn or a heartbeat is due."""
        if not self.up:
            return None
        due_ms = self.turns.next_timer_ms()
        beat_ms = self.poll_ms + self.config.limits.heartbeat_ms // 4
        if due_ms is None:
            return beat_ms
        return min(beat_ms, self.lab.now_ms + max(due_ms - self.now().ms, 0))

    def beat(self) -> None:
        """Polls all connections if a poll is due."""
        if self.up and self.lab.now_ms >= self.poll_ms + self.config.limits.heartbeat_ms // 4:
            self.poll_ms = self.lab.now_ms
            for port in list(self.ports.values()):
                port.poll()

    def turn(self) -> None:
        """Runs one turn, and sends its output."""
        moved, self._kick = self._kick, False  # The first turn needs no reason.
        flushes, waiting = self.store.flushes, bool(self.turns.intake)
        moved |= self.lab.now_ms > self._turned_ms  # A timer without work does not count as a spin.
        self._turned_ms = self.lab.now_ms
        try:
            outcome = self.turns.run(self.now())
        except TurnFailed as failed:
            if not isinstance(failed.__cause__, Injected):
                raise
            self.lab.note(self.name, "turn failed")
            self._recover(failed)
        except Crash:
            self.lab.note(self.name, f"crash {self.store.crash} its commit")
            self.die()
        else:
            moved |= waiting or any(outcome) or self.store.flushes != flushes
            self.idle_turns = 0 if moved else self.idle_turns + 1
            self.release(outcome)

    def release(self, outcome: Outcome) -> None:
        """Sends the output of a durable turn."""
        self.outcomes += 1
        self.lab.watch.released(self, outcome)
        if self.lab.user_law is not None:
            self.lab.user_law.released(self, outcome)
        if self.lab.left is not None:
            leaving = [*outcome.sends, *outcome.closes]
            self.lab.left += [(self.name, message) for _, message in leaving]
        writes: dict[int, list[bytes]] = defaultdict(list)
        for number, message in outcome.sends:
            port = self.ports.get(number)
            if port is not None:
                writes[number].append(port.peer.encode(message))
        for number, parts in writes.items():
            self.ports[number].write(b"".join(parts))
        for number, goaway in outcome.closes:
            port = self.ports.get(number)
            if port is not None:
                port.say_goodbye(goaway)
        for effect in outcome.effects:
            if isinstance(effect, Dial):
                self.lab.dials.append((self, effect))

    def admit(self, hello: m.Hello) -> m.Goaway | None:
        wait_ms = self._kept_out.get(hello.name, 0) - self.lab.now_ms
        if wait_ms <= 0:
            return None
        return m.Goaway(ErrorCode.PEER_KEPT_OUT, "kept out", wait_ms)

    def fail_turn(self, connection: int = 0) -> None:
        """Plants a bug in the next turn, after the pending input from *connection*."""

        def fail(broker: object) -> None:
            raise Injected

        self.turns.intake.event(connection, fail)

    def _recover(self, failed: TurnFailed) -> None:
        guilty = self.ports.get(failed.connection)
        if guilty is not None:
            self._kept_out[guilty.peer.peer_name] = self.lab.now_ms + KEEP_OUT_MS
        for port in list(self.ports.values()):
            port.say_goodbye(m.Goaway(ErrorCode.INTERNAL_ERROR, "is starting", 100))
        self._stopped(clean=False)
        self.start()

    def die(self) -> None:
        """Crashes now. All data that is not durable is lost."""
        self.store.abort()
        self._go_down(clean=False)

    def stop(self) -> None:
        """Stops cleanly, as the daemon does on SIGTERM."""
        while self.turns.intake and self.up:
            self.turn()
        if not self.up:
            return  # The queue manager crashed while it was stopping.
        self.is_stopping = True
        try:
            outcomes = self.turns.stop(self.now())
        except Crash:
            self.die()
            return
        for outcome in outcomes:
            self.release(outcome)
        self._go_down(clean=True)

    def _go_down(self, *, clean: bool) -> None:
        random = self.lab.random
        silently = random.random() < self.lab.silent_crashes
        for port in list(self.ports.values()):
            if port.wire is not None:
                port.wire.vanish(port, random, silently=silently)
        self.is_stopping = False
        self.ports.clear()
        self._kept_out.clear()
        self.lab.dials = [dial for dial in self.lab.dials if dial[0] is not self]
        self._stopped(clean=clean)
        self.up = False
