"""Tests each row of the crash matrix of a link with many seeds (docs/behaviour.md, B16).

A seed chooses windows, paths, the order, and random events before and after the crash. At the end,
each message must have been consumed once, and the transmission queue must be empty. ``python -m
tests.sim.test_crash_matrix 1000`` runs 1,000 seeds of each row.
"""

import sys
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeAlias

import pytest

from qmgr_client.message import Outgoing, PutResult, encode
from qmgr_protocol import messages as m
from qmgrd.core.link.link import LinkState
from qmgrd.core.link.pump import LinkPump
from qmgrd.core.sessions.link_streams import LinkStreams
from tests.sim.node import Node, PeerPort
from tests.sim.pair import HUB, REMOTE, Pair, stored
from tests.sim.wire import Flow, Wire

SEEDS = 12  # number of seeds for each row in the normal test run


class Bench(Pair):
    """EWR with a link to NYC. A seed chooses its windows, paths and order."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        edge = {
            "link": {
                "window_messages": chance.choice([1, 3, 20, 4096]),
                "stall_ms": 2_000,
                "redial_max_ms": 1_000,
            }
        }
        hub = {
            "link": {
                "commit_messages": chance.choice([1, 3, 500]),
                "commit_interval_ms": chance.choice([0, 50, 1_000]),
            }
        }
        super().__init__(edge, hub, linked=False)
        self.chance = chance
        attributes = {
            "addresses": [f"{HUB}:7470"],
            "connections": chance.choice([1, 1, 2, 3]),
            "ordered": chance.random() < 0.3,
        }
        self.at_edge.ask(lambda i: m.LinkCreate(i, HUB, attributes))
        self.at_edge.ask(lambda i: m.QueueCreate(i, REMOTE))
        self.settle()
        self.bodies: list[bytes] = []
        self.tickets: list[int] = []
        self.consumed: list[bytes] = []
        self.put_some()
        self.wander(chance.randrange(40))

    def put_some(self) -> None:
        """Puts some messages through the application, which are then in flight."""
        self.app.settle_down() if self.app.wire is None else self.app.flush()
        for _ in range(self.chance.choice([1, 3, 10])):
            body = b"%d" % len(self.bodies) + bytes(self.chance.choice([0, 50, 3_000]))
            self.bodies.append(body)
            self.tickets.append(self.app.core.put(REMOTE, encode(Outgoing(body))))
        self.app.flush()

    def wander(self, steps: int) -> None:
        """Runs some random steps, in which bytes arrive, turns run and time passes."""
        for _ in range(steps):
            dice = self.chance.random()
            flows, wanting = self.flows(), [node for node in self.nodes.values() if node.wanted]
            if self.dials and dice < 0.2:
                self.answer_dial(0)
            elif flows and dice < 0.6:
                size = self.chance.choice([1, 40, 500, 1 << 30])
                self.chance.choice(flows).deliver(size)
            elif wanting and dice < 0.95:
                self.chance.choice(wanting).turn()
            elif self.deadlines() and dice > 0.97:
                self.now_ms = min(self.deadlines())
            self.sweep()

    @property
    def paths(self) -> list[Wire]:
        """The connections of the link."""
        return [
            wire
            for wire in self.wires
            if isinstance(wire.flows[0].port, PeerPort) and not wire.flows[0].over
        ]

    def flows_to(self, node: Node) -> list[Flow]:
        """Returns the bytes in flight to one end of the link."""
        return [
            flow
            for wire in self.wires
            for flow in wire.flows
            if isinstance(flow.port, PeerPort) and flow.port.node is node and not flow.over
        ]

    def hear(self, node: Node) -> None:
        """Delivers all bytes in flight to *node*, which does not process them yet."""
        while self.dials:
            self.answer_dial(0)
        for flow in self.flows_to(node):
            flow.clogged = False
            flow.deliver(1 << 30)

    def crash(self, node: Node, when: str) -> None:
        """Crashes *node* in its next turn, or now if no turn is due."""
        if node.up and node.wanted:
            node.store.crash = when
            node.turn()
            node.store.crash = ""
        if node.up:
            node.die()

    def end(self) -> None:
        """Ends all faults, runs until everything is at rest, and checks the result."""
        self.put_some()
        for wire in self.wires:
            for flow in wire.flows:
                flow.clogged = False
        for node in self.nodes.values():
            if not node.up:
                node.start()
        for _ in range(6):
            self.app.settle_down()
            self.advance(20_000)
            self.consumed += self.reader.get("FLIGHTS")
        answers = [self.app.results[ticket] for ticket in self.tickets]
        assert all(isinstance(answer, PutResult) for answer in answers), answers
        assert sorted(self.consumed) == sorted(self.bodies)
        if self.link.row["ordered"]:
            assert self.consumed == self.bodies
        assert stored(self.edge, self.link.queue) == {}
        assert self.link.state is LinkState.UP


Row: TypeAlias = Callable[[Bench], None]


def source_before_the_put_is_durable(bench: Bench) -> None:
    bench.put_some()
    bench.hear(bench.edge)
    bench.crash(bench.edge, "before")


def source_after_the_put_before_sending(bench: Bench) -> None:
    bench.put_some()
    bench.hear(bench.edge)
    bench.crash(bench.edge, "after")


def source_after_sending_before_the_commit(bench: Bench) -> None:
    bench.hear(bench.edge)
    if bench.edge.wanted:
        bench.edge.turn()
    for flow in bench.flows_to(bench.edge):
        flow.clogged = True
    bench.hear(bench.hub)
    while bench.hub.wanted:
        bench.hub.turn()
    bench.edge.die()


def source_with_a_deletion_that_is_not_durable(bench: Bench) -> None:
    bench.hear(bench.hub)
    while bench.hub.wanted:
        bench.hub.turn()
    bench.hear(bench.edge)
    bench.crash(bench.edge, "before")


def destination_with_what_is_not_durable(bench: Bench) -> None:
    bench.hear(bench.hub)
    bench.crash(bench.hub, "before")


def destination_before_the_commit_is_sent(bench: Bench) -> None:
    bench.hear(bench.hub)
    bench.crash(bench.hub, "after")


def destination_after_a_user_has_consumed(bench: Bench) -> None:
    bench.settle()
    for flow in bench.flows_to(bench.edge):
        flow.clogged = isinstance(flow.port, PeerPort) and bool(flow.port.peer.dial)
    bench.put_some()
    bench.consumed += bench.reader.get("FLIGHTS", 5)
    bench.hub.die()
    for flow in bench.flows_to(bench.edge):
        flow.data.clear()  # The commit was not sent.


def destination_whose_commit_is_lost(bench: Bench) -> None:
    for flow in bench.flows_to(bench.edge):
        flow.clogged = True
    bench.hear(bench.hub)
    while bench.hub.wanted:
        bench.hub.turn()
    for wire in bench.paths:
        wire.flows[0].data.clear()
        wire.cut(bench.chance)


def both_ends_at_once(bench: Bench) -> None:
    bench.edge.die()
    bench.hub.die()


def drop_in_the_midst_of_a_message(bench: Bench) -> None:
    bench.put_some()
    while bench.edge.wanted:
        bench.edge.turn()
    for wire in bench.paths:
        wire.flows[1].deliver(1 + bench.chance.randrange(200))
        wire.cut(bench.chance)


def commit_of_an_older_connection(bench: Bench) -> None:
    """The commit arrives late, after the other end has lost that connection and opened others."""
    older = bench.paths
    for wire in older:
        wire.flows[0].clogged = True
    bench.hear(bench.hub)
    while bench.hub.wanted:
        bench.hub.turn()
    for wire in older:
        wire.flows[1].data.clear()
        wire.flows[1].end = "connection reset"
    bench.advance(5_000)
    for wire in older:
        wire.flows[0].clogged = False


ROWS: list[Row] = [
    source_before_the_put_is_durable,
    source_after_the_put_before_sending,
    source_after_sending_before_the_commit,
    source_with_a_deletion_that_is_not_durable,
    destination_with_what_is_not_durable,
    destination_before_the_commit_is_sent,
    destination_after_a_user_has_consumed,
    destination_whose_commit_is_lost,
    both_ends_at_once,
    drop_in_the_midst_of_a_message,
    commit_of_an_older_connection,
]


def live(row: Row, seed: int) -> Bench:
    """Runs a row with one seed, and returns the final bench."""
    bench = Bench(seed)
    row(bench)
    bench.wander(bench.chance.randrange(30))
    bench.end()
    return bench


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_row_of_the_matrix_loses_and_doubles_nothing_B16(row: Row) -> None:
    for seed in range(SEEDS):
        live(row, seed)


@pytest.mark.parametrize(
    "broken", ["source deletes what it has sent", "destination stores no window"]
)
def test_matrix_finds_a_bug_at_either_end(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "destination stores no window":
        end_turn = LinkStreams.end_turn

        def forgetful(self: LinkStreams) -> None:
            self._dirty.clear()
            end_turn(self)

        monkeypatch.setattr(LinkStreams, "end_turn", forgetful)
    else:
        run = LinkPump.run

        def eager(self: LinkPump) -> None:
            run(self)
            self._link.outbox.commit(self._link.outbox.sent_id)

        monkeypatch.setattr(LinkPump, "run", eager)
    found = [row.__name__ for row in ROWS for seed in range(5) if _fails(partial(live, row, seed))]
    assert found


def main() -> int:
    """Runs many seeds of each row, and returns the number of failures."""
    count, failed = int(sys.argv[1]), 0
    for row in ROWS:
        bad = [seed for seed in range(count) if _fails(partial(live, row, seed))]
        print(f"{row.__name__}: {count} seeds, failed: {bad or 'none'}", flush=True)
        failed += len(bad)
    return min(failed, 99)


def _fails(run: Callable[[], object]) -> bool:
    try:
        run()
    except Exception:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
