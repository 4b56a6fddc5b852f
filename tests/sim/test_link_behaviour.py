"""Tests of links from end to end (docs/behaviour.md, B), with two production cores and a wire.

tests/qmgrd/core tests each end separately. Here, both ends are real and must agree.
"""

from itertools import count
from typing import Any

import pytest

from qmgr_client.message import Outgoing, PutResult, encode
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.link.link import LinkState
from tests.sim.node import Node, PeerPort
from tests.sim.pair import EDGE, HUB, REMOTE, Pair, Sender, Stranger, stored
from tests.sim.wire import Flow

SELDOM: dict[str, Any] = {"link": {"commit_messages": 100_000, "commit_interval_ms": 60_000}}


def test_source_keeps_messages_and_ids_over_a_crash_B1() -> None:
    pair = Pair()
    pair.hub.die()
    pair.put(5)
    before = stored(pair.edge, pair.queue(pair.edge, f"@{HUB}"))
    pair.edge.die()
    pair.edge.start()
    assert stored(pair.edge, pair.queue(pair.edge, f"@{HUB}")) == before
    assert list(before) == [1, 2, 3, 4, 5]


def test_message_is_sent_again_under_its_id_B2() -> None:
    pair = Pair()
    pair.settle()
    pair.link_wire().go_dark()
    pair.put(3)
    assert pair.sent() == [1, 2, 3]
    pair.cut_link()
    pair.advance(1_000)
    assert pair.sent() == [1, 2, 3]
    assert len(pair.reader.get("FLIGHTS")) == 3


def test_ids_of_one_stream_may_come_in_any_order_B3() -> None:
    """An older message arrives late, as it could over a second path."""
    pair, link = _by_hand()
    link.put(3)
    link.put(1)
    link.put(2)
    assert pair.reader.get("FLIGHTS") == [b"3", b"1", b"2"]


def test_commit_id_is_the_end_of_the_consecutive_run_B4() -> None:
    pair, link = _by_hand()
    link.put(1, 2)
    link.put(4, 5)
    pair.advance(1_000)
    assert link.commit_ids() == [2]
    link.put(3)
    pair.advance(1_000)
    assert link.commit_ids() == [5]


def test_nothing_is_committed_before_it_is_durable_B5() -> None:
    pair = Pair()
    pair.hub.store.crash = "before"
    bodies = pair.put(3)
    assert not pair.hub.up
    assert pair.commits() == []
    pair.hub.start()
    pair.advance(10_000)
    assert pair.reader.get("FLIGHTS") == bodies
    assert stored(pair.edge, pair.link.queue) == {}


def test_message_is_available_before_a_commit_is_sent_B6() -> None:
    pair = Pair(hub=SELDOM)
    bodies = pair.put(7)
    assert pair.reader.get("FLIGHTS") == bodies
    assert pair.commits() == []
    assert len(stored(pair.edge, pair.link.queue)) == 7


def test_gap_delays_no_message_behind_it_B7() -> None:
    pair, link = _by_hand()
    link.put(1, 2)
    link.put(4, 5)
    assert pair.reader.get("FLIGHTS") == [b"1", b"2", b"4", b"5"]


def test_commits_are_occasional_B8() -> None:
    """With N = 1000 and k = 50, N + N/k flows are sent. A commit per message would need 4 N."""
    window = {"window_messages": 50, "commit_messages": 50, "commit_interval_ms": 60_000}
    pair = Pair(edge={"link": window}, hub={"link": window})
    pair.put(1_000)
    assert len(pair.sent()) == 1_000
    assert pair.commits() == list(range(50, 1_001, 50))


def test_commit_deletes_at_the_source_in_one_turn_B9() -> None:
    pair = Pair(hub={"link": {"commit_messages": 50, "commit_interval_ms": 60_000}})
    pair.hub.die()
    pair.put(50)
    turn = pair.edge.turns.broker.context.turn_number
    pair.hub.start()
    pair.advance(1_000)
    assert stored(pair.edge, pair.link.queue) == {}
    # One more turn records that messages are sent in this process run.
    assert pair.edge.turns.broker.context.turn_number == turn + 2


def test_only_missing_messages_are_sent_after_a_drop_B13() -> None:
    pair = Pair(hub=SELDOM)
    bodies = pair.put(30)
    assert pair.sent() == list(range(1, 31))
    assert len(stored(pair.edge, pair.link.queue)) == 30
    assert len(stored(pair.hub, pair.queue(pair.hub, "FLIGHTS"))) == 30
    pair.hub.die()
    bodies += pair.put(70)
    pair.hub.start()
    pair.advance(10_000)
    assert pair.sent() == list(range(31, 101))
    assert pair.link.pump.resent == 0
    assert pair.reader.get("FLIGHTS") == bodies


def _with_a_gap() -> tuple[Pair, list[bytes]]:
    """Returns a pair whose hub holds all messages except those for a full queue."""
    pair = Pair()
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "SMALL", {"depth_max": 1}))
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"SMALL@{HUB}"))
    pair.hub.die()
    small = pair.put(3, f"SMALL@{HUB}")
    pair.put(20)
    pair.hub.start()
    pair.sent()
    while pair.link.state is not LinkState.BLOCKED:
        pair.advance(100)
    pair.advance(100)
    assert set(pair.sent()) == set(range(1, 24))
    return pair, small


def test_only_missing_messages_are_sent_again_after_a_block() -> None:
    pair, small = _with_a_gap()
    for one in small:
        assert pair.reader.get("SMALL") == [one]
        pair.advance(20_000)
    assert set(pair.sent()) == {2, 3}
    (inbound,) = pair.at_hub.ask(lambda i: m.LinkList(i))["inbound"]
    assert (inbound["commit_id"], inbound["duplicates"]) == (23, 0)
    assert stored(pair.edge, pair.link.queue) == {}


def test_messages_held_above_a_gap_are_not_sent_again_after_a_drop_B13() -> None:
    pair, small = _with_a_gap()
    assert pair.reader.get("SMALL") == small[:1]
    pair.hub.die()
    pair.hub.start()
    pair.advance(10_000)
    assert set(pair.sent()) == {2, 3}
    assert pair.reader.get("SMALL") == small[1:2]


def test_sender_asks_for_a_commit_when_its_window_is_full_B10_B26() -> None:
    """Otherwise, the sender would wait for the commit interval a hundred times."""
    pair = Pair(edge={"link": {"window_messages": 10}}, hub=SELDOM)
    pair.put(1_000)
    assert len(stored(pair.hub, pair.queue(pair.hub, "FLIGHTS"))) == 1_000
    assert len(stored(pair.edge, pair.link.queue)) <= 10


def test_commit_is_sent_after_so_many_bytes_B10() -> None:
    seldom = {"link": {**SELDOM["link"], "commit_bytes": "10 KiB"}}
    pair = Pair(hub=seldom)
    for _ in range(20):
        pair.put(1, size_bytes=2_000)
    assert pair.commits() == [6, 12, 18]


def test_commit_is_sent_with_the_goodbye_B10() -> None:
    pair = Pair(hub=SELDOM)
    pair.put(5)
    assert pair.commits() == []
    pair.hub.stop()
    pair.settle()
    assert pair.commits() == [5]


def test_message_consumed_before_its_commit_is_not_delivered_again_B14() -> None:
    pair = Pair(hub=SELDOM)
    bodies = pair.put(5)
    assert pair.reader.get("FLIGHTS") == bodies
    pair.hub.die()
    pair.hub.start()
    pair.advance(100_000)
    assert pair.reader.get("FLIGHTS") == []
    assert stored(pair.edge, pair.link.queue) == {}


def test_message_consumed_before_its_commit_is_discarded_when_resent_B14_B29() -> None:
    pair, link = _by_hand()
    link.put(1, 2, 3, 4, 5)
    assert len(pair.reader.get("FLIGHTS")) == 5
    pair.hub.die()
    pair.hub.start()
    link.dial()
    link.open()
    link.put(1, 2, 3, 4, 5, 6)
    assert pair.reader.get("FLIGHTS") == [b"6"]
    (inbound,) = pair.at_hub.ask(lambda i: m.LinkList(i))["inbound"]
    assert (inbound["commit_id"], inbound["duplicates"]) == (6, 5)


@pytest.mark.parametrize(
    "commit_ids", [[3], [1, 2, 3], [3, 3, 3], [3, 1, 2], [2, 2, 1, 3, 0]], ids=str
)
def test_lost_late_and_repeated_commits_end_the_same_B15(commit_ids: list[int]) -> None:
    pair, hub = _with_stranger()
    pair.put(3)
    for commit_id in commit_ids:
        hub.say(m.Committed(1, commit_id))
        pair.settle()
    assert stored(pair.edge, pair.link.queue) == {}
    assert (pair.link.state, pair.link.outbox.commit_id) == (LinkState.UP, 3)


def test_commit_of_an_unsent_id_is_refused_and_deletes_nothing_B28() -> None:
    pair, hub = _with_stranger()
    pair.put(3)
    hub.say(m.Committed(1, 4))
    pair.settle()
    assert [goaway.code for goaway in hub.heard_of(m.Goaway)] == [ErrorCode.COMMIT_OUT_OF_RANGE]
    assert len(stored(pair.edge, pair.link.queue)) == 3


def test_full_queue_at_the_hub_blocks_the_link_until_it_drains_B19() -> None:
    pair = Pair()
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "SMALL", {"depth_max": 10}))
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"SMALL@{HUB}"))
    bodies = pair.put(25, f"SMALL@{HUB}")
    pair.advance(5_000)
    assert pair.link.state is LinkState.BLOCKED
    assert "QUEUE_FULL" in pair.link.error
    assert len(stored(pair.edge, pair.link.queue)) == 15
    got: list[bytes] = []
    while len(got) < 25:
        got += pair.reader.get("SMALL")
        pair.advance(3_000)
    assert got == bodies
    assert (pair.link.state, stored(pair.edge, pair.link.queue)) == (LinkState.UP, {})


def test_inhibited_queue_at_the_hub_blocks_the_link_until_the_inhibit_is_lifted() -> None:
    pair = Pair()
    pair.at_hub.ask(lambda i: m.QueueAlter(i, "FLIGHTS", {"put_inhibit": True}))
    bodies = pair.put(5)
    pair.advance(5_000)
    assert pair.link.state is LinkState.BLOCKED
    assert pair.link.error.startswith(f"PUT_INHIBITED: {HUB} reports: puts are inhibited on queue")
    assert (len(stored(pair.edge, pair.link.queue)), pair.reader.get("FLIGHTS")) == (5, [])
    pair.at_hub.ask(lambda i: m.QueueAlter(i, "FLIGHTS", {"put_inhibit": False}))
    pair.advance(3_000)
    assert pair.reader.get("FLIGHTS") == bodies
    assert (pair.link.state, stored(pair.edge, pair.link.queue)) == (LinkState.UP, {})


def test_unknown_queue_at_the_hub_blocks_the_link_until_it_is_created() -> None:
    pair = Pair()
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"LATE@{HUB}"))
    late = pair.put(3, f"LATE@{HUB}")
    assert pair.link.state is LinkState.BLOCKED
    assert "QUEUE_UNKNOWN" in pair.link.error
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "LATE"))
    pair.advance(30_000)
    assert pair.reader.get("LATE") == late
    assert pair.link.state.value == LinkState.UP.value


def test_messages_blocked_by_a_full_queue_continue_after_a_crash_of_the_source() -> None:
    """The hub holds ids above the gap, so its next commit id may exceed all resent ids."""
    pair = Pair(edge={"link": {"window_bytes": 1024}})
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "SMALL", {"depth_max": 1}))
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"SMALL@{HUB}"))
    pair.hub.die()
    pair.put(2, f"SMALL@{HUB}", size_bytes=300)
    pair.put(1, size_bytes=300)
    pair.hub.start()
    pair.advance(2_000)
    assert len(pair.reader.get("SMALL")) == 1
    pair.edge.die()
    pair.edge.config = pair.edge.config.model_copy(
        update={"link": pair.edge.config.link.model_copy(update={"window_bytes": 1})}
    )
    pair.edge.start()
    pair.advance(1_000)
    assert (pair.link.state, pair.link.outbox.commit_id) == (LinkState.UP, 3)
    assert pair.goodbyes(EDGE) == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("who", [EDGE, HUB])
def test_crash_at_any_commit_of_either_end_loses_and_doubles_nothing_B16(
    who: str, when: str
) -> None:
    """The crash happens before each commit is durable, or after it but before any output."""
    for nth in range(1, 100):
        pair = Pair(hub={"link": {"commit_messages": 2}})
        crashed = _crash_at(pair.nodes[who], when, nth)
        _move_five(pair)
        if not crashed:
            assert nth > 3  # Each commit of the transfer was interrupted by a crash.
            return
    raise AssertionError("the transfer does not end")


class Cutting(Pair):
    """A pair that cuts the first connection of the link after *offset* bytes to one end."""

    def __init__(self, end: int, offset: int) -> None:
        self._end = end
        self._left: int | None = offset
        super().__init__(hub={"link": {"commit_messages": 2}})

    def hand_over(self, flow: Flow) -> None:
        links = [wire for wire in self.wires if isinstance(wire.flows[0].port, PeerPort)]
        if self._left is None or not links or flow is not links[0].flows[self._end]:
            super().hand_over(flow)
            return
        size = min(self._left, len(flow.data))
        self._left -= size
        if size:
            flow.deliver(size)
        if not self._left:
            self._left = None
            for broken in links[0].flows:
                broken.data.clear()
                broken.end = broken.end or "cut"

    @property
    def is_cut(self) -> bool:
        """True if the cut has happened."""
        return self._left is None


@pytest.mark.parametrize("end", [0, 1], ids=["to the source", "to the destination"])
def test_cut_at_any_byte_loses_and_doubles_nothing_B16(end: int) -> None:
    """The cut happens at each byte of either direction, as in the row "link drop mid message"."""
    for offset in range(10_000):
        pair = Cutting(end, offset)
        _move_five(pair)
        if not pair.is_cut:
            assert offset > 100
            return
    raise AssertionError("the transfer does not end")


@pytest.mark.parametrize("host", ["lga", "nobody"])
def test_corrected_address_delivers_waiting_messages_once(host: str) -> None:
    pair = Pair(linked=False)
    pair.strangers["lga"] = lambda: Stranger("LGA")
    pair.make_link(host)
    bodies = pair.put(20)
    pair.advance(60_000)
    assert len(stored(pair.edge, pair.link.queue)) == 20
    _alter(pair, HUB)
    pair.advance(1_000)
    assert pair.reader.get("FLIGHTS") == bodies
    assert (pair.link.state, stored(pair.edge, pair.link.queue)) == (LinkState.UP, {})


@pytest.mark.parametrize("crash", [None, EDGE, HUB])
@pytest.mark.parametrize("over_there", [None, "LGA"])
def test_address_altered_with_messages_in_flight_loses_and_doubles_nothing_B16(
    over_there: str | None, crash: str | None
) -> None:
    """The new address leads to the same queue manager, or first to another one and then back."""
    pair = Pair(hub=SELDOM)
    pair.strangers["lga"] = lambda: Stranger("LGA")
    bodies = pair.put(5)  # These messages arrived, but their commit was not sent.
    got = pair.reader.get("FLIGHTS")
    pair.link_wire().go_dark()
    bodies += pair.put(5)  # These messages are in flight.
    if over_there:
        _alter(pair, "lga")
        pair.advance(10)
        assert pair.link.state is LinkState.REFUSED
        assert pair.link.error.startswith("PEER_WRONG")
        assert len(stored(pair.edge, pair.link.queue)) == 10
    else:
        pair.at_edge.ask(lambda i: m.LinkAlter(i, HUB, {"addresses": ["nobody:1", f"{HUB}:7470"]}))
    if crash:
        pair.nodes[crash].die()
        pair.nodes[crash].start()
    _alter(pair, HUB)
    bodies += pair.put(5)
    pair.advance(120_000)
    assert sorted(got + pair.reader.get("FLIGHTS")) == sorted(bodies)
    assert (pair.link.state, stored(pair.edge, pair.link.queue)) == (LinkState.UP, {})


def _alter(pair: Pair, host: str) -> None:
    pair.at_edge.ask(lambda i: m.LinkAlter(i, HUB, {"addresses": [f"{host}:7470"]}))


def test_refused_puts_that_arrive_at_once_do_not_use_up_the_window() -> None:
    """Each put needs its own answer. A joint answer would answer only the first put."""
    pair = Pair(hub={"limits": {"put_window_messages": 8}})
    pair.at_hub.ask(lambda i: m.QueueAlter(i, "FLIGHTS", {"put_inhibit": True}))
    wire = pair.link_wire()
    for flow in wire.flows:
        flow.clogged = True
    for _ in range(8):
        pair.put(1)
    for flow in wire.flows:
        flow.clogged = False
    pair.settle()
    assert pair.link.state is LinkState.BLOCKED
    pair.at_hub.ask(lambda i: m.QueueAlter(i, "FLIGHTS", {"put_inhibit": False}))
    pair.advance(5_000)
    assert len(pair.reader.get("FLIGHTS")) == 8


def _crash_at(node: Node, when: str, nth: int) -> list[bool]:
    """Crashes *node* at its *nth* commit from now on. The list shows whether the crash happened."""
    commits, crashed, before = count(1), list[bool](), node.store.before_commit
    assert before is not None

    def crash_at_last() -> None:
        if next(commits) == nth:
            node.store.crash = when
            crashed.append(True)
        before()

    node.store.before_commit = crash_at_last
    return crashed


def _move_five(pair: Pair) -> None:
    """Puts, moves and consumes five messages, restarts crashed nodes, and checks the result."""
    app, reader = pair.app, pair.reader
    bodies = [b"%d" % i for i in range(5)]
    tickets = [app.core.put(REMOTE, encode(Outgoing(body))) for body in bodies]
    reader.core.consume("FLIGHTS", 2)
    seen: list[bytes] = []
    for _ in range(20):
        for node in pair.nodes.values():
            if not node.up:
                node.start()
        app.settle_down()
        reader.settle_down()
        for message in reader.messages:
            assert message.redelivered != "no" or message.body not in seen
            seen.append(message.body)
            reader.core.settle(message, m.ACK)
        reader.messages.clear()
        pair.advance(500)
    assert sorted(set(seen)) == bodies
    assert all(isinstance(app.results[ticket], PutResult) for ticket in tickets)
    assert stored(pair.edge, pair.link.queue) == {}
    assert stored(pair.hub, pair.queue(pair.hub, "FLIGHTS")) == {}


def _by_hand() -> tuple[Pair, Sender]:
    pair = Pair(linked=False)
    return pair, Sender(pair)


def _with_stranger() -> tuple[Pair, Stranger]:
    pair, hub = Pair(linked=False), Stranger()
    pair.strangers["nyc"] = lambda: hub
    pair.make_link("nyc")
    pair.settle()
    return pair, hub


LIMIT_BYTES = 4_096


def limited(own: int = LIMIT_BYTES) -> dict[str, Any]:
    return {"limits": {"message_max_bytes": own}}


def longest(limit_bytes: int = LIMIT_BYTES) -> int:
    return limit_bytes - len(encode(Outgoing(b"")))


def test_message_of_the_largest_size_crosses_a_link() -> None:
    """The added UID does not count, because every limit measures the same size."""
    pair = Pair(edge=limited(), hub=limited())
    (body,) = pair.put(1, size_bytes=longest())
    pair.advance(1_000)
    assert (pair.link.state, pair.reader.get("FLIGHTS")) == (LinkState.UP, [body])


def test_message_too_long_for_the_peer_does_not_block_others() -> None:
    pair = Pair(edge=limited(2 * LIMIT_BYTES), hub=limited())
    first = pair.put(1, size_bytes=100)
    pair.put(1, size_bytes=longest() + 1)
    behind = pair.put(2, size_bytes=100)
    pair.advance(100)
    assert pair.reader.get("FLIGHTS") == first + behind
    assert pair.link.state is LinkState.BLOCKED
    assert pair.link.error.startswith(
        f"MESSAGE_TOO_LARGE: message 2 has {LIMIT_BYTES + 1} bytes, but {HUB} accepts at most 4096"
    )
    later = pair.put(3, size_bytes=100)
    pair.advance(100)
    assert pair.reader.get("FLIGHTS") == later
    assert len(stored(pair.edge, pair.link.queue)) >= 1
    pair.advance(60_000)
    assert pair.link.state is LinkState.BLOCKED
    assert pair.link.pump.resent == 0
