"""The bugs that the simulator found, each played by hand: these fail without their fixes."""

from qmgr_client.message import Outgoing, encode
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.connection import Connection
from qmgr_protocol.record import Fields
from qmgr_protocol.states import Side
from qmgrd.core import keys
from qmgrd.core.link import LinkState
from qmgrd.core.retention import RETENTION_PERIOD_MS
from tests.sim.audit import rows_of
from tests.sim.pair import HUB, Pair, Sender, Stranger
from tests.sim.wire import Wire


class Quick:
    """Dials, and says hello and goodbye in one piece."""

    def __init__(self) -> None:
        self.heard = b""

    def opened(self, wire: Wire) -> None:
        connection = Connection(Side.DIALLER)
        hello = connection.send(m.Hello(m.MAGIC, m.VERSION, m.VERSION, "client", "quick"))
        wire.send(self, hello + connection.send(m.Goaway(0, "never mind")))

    def received(self, data: bytes) -> None:
        self.heard += data

    def lost(self, why: str) -> None:
        """Nothing hangs on it."""


def test_goodbye_behind_a_hello_ends_the_connection() -> None:
    """Seed 0, step 1066: the welcome was sent on a connection that was closed already."""
    pair = Pair(linked=False)
    quick = Quick()
    pair.connect(quick, pair.hub)
    pair.settle()
    assert quick.heard == b""
    assert not any(port.peer.peer_name == "quick" for port in pair.hub.ports.values())


def test_maybe_outlasts_a_clean_stop() -> None:
    """Seed 10, step 2033: delivered, a crash, a clean stop, and it came again as never seen."""
    pair = Pair(linked=False)
    pair.reader.put("FLIGHTS", [b"x"])
    (message,) = pair.reader.request(m.Get, "FLIGHTS", 1, 0, 60_000, 1_000)
    assert message.redelivered == "no"
    pair.hub.die()
    pair.hub.start()
    pair.settle()
    pair.hub.stop()
    pair.hub.start()
    (message,) = pair.reader.request(m.Get, "FLIGHTS", 1, 0, 60_000, 1_000)
    assert message.redelivered == "maybe"


def test_late_words_of_a_given_up_connection_are_void() -> None:
    """Seed 403, step 2278: a Blocked behind a LinkStop left the link up without a connection."""
    pair, hub = Pair(linked=False), Stranger()
    pair.strangers["nyc"] = lambda: hub
    pair.make_link("nyc")
    pair.put(1)
    intake = pair.edge.turns.intake
    stop = m.LinkStop(99, HUB)
    operator, link = (
        next(n for n, port in pair.edge.ports.items() if bool(port.peer.dial) is is_link)
        for is_link in (False, True)
    )
    intake.message(operator, stop, 10)
    intake.message(link, m.Blocked(1, 1, 303, 1_000), 10)
    pair.settle()
    assert pair.link.state is LinkState.STOPPED
    pair.advance(10_000)
    assert pair.link.state is LinkState.STOPPED


def test_commit_id_is_told_on_the_connection_that_took_over() -> None:
    """Seed 10718: the older connection's timer told it there, and the sender waited for ever."""
    pair = Pair(hub={"link": {"commit_interval_ms": 1_000}}, linked=False)
    older, newer = Sender(pair), Sender(pair, opens=False)
    older.put(1)
    older.send_put(2)
    newer.open()  # In the turn of the put, so that both find the same window in memory.
    newer.put(3)
    pair.advance(5_000)
    assert newer.commit_ids() == [3]


def test_producer_that_comes_and_goes_in_the_turn_of_the_retention_is_counted() -> None:
    """Seed 100573: its row was removed as too old, written anew, and counted as gone."""
    pair = Pair(hub={"producer": {"retention_ms": 1_000}}, linked=False)
    pair.reader.put("FLIGHTS", [b"x"])
    assert pair.reader.wire is not None
    pair.reader.wire.close(pair.reader)
    pair.advance(RETENTION_PERIOD_MS // 2)
    pair.now_ms += RETENTION_PERIOD_MS
    pair.reader.core.put("FLIGHTS", encode(Outgoing(b"y")))
    pair.connect(pair.reader, pair.hub)
    for _ in range(4):
        for flow in pair.flows():
            flow.deliver(1 << 30)
    pair.reader.wire.close(pair.reader)
    pair.settle()
    assert pair.hub.turns.broker.streams.producer_count == 1
    assert len(rows_of(pair.hub.store, keys.SPACE_PRODUCER)) == 1


def test_link_that_is_blocked_again_and_again_keeps_within_the_put_window_of_a_slow_peer() -> None:
    """Seed 101478: each retry sent a window more, though nothing of the last had been taken."""
    limits = {"put_window_messages": 8, "turn_requests": 1}
    pair = Pair(hub={"limits": limits})
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "SMALL", {"depth_max": 1}))
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"SMALL@{HUB}"))
    pair.hub.die()
    for _ in range(10):
        pair.put(1, f"SMALL@{HUB}")
        pair.put(1)
    pair.hub.start()
    for _ in range(100):  # The hub takes one put in half a second, a retry comes each second.
        pair.now_ms += 500
        while pair.dials:
            pair.answer_dial(0)
        for flow in pair.flows():
            flow.deliver(1 << 30)
        while pair.edge.wanted:
            pair.edge.turn()
        if pair.hub.wanted:
            pair.hub.turn()
    assert pair.goodbyes(HUB) == []
    small: list[bytes] = []
    while len(small) < 10:
        small += pair.reader.get("SMALL")
        pair.advance(2_000)
    assert len(pair.reader.get("FLIGHTS")) == 10


def test_record_of_the_simulator_is_a_record() -> None:
    """What the workloads put is what a client puts."""
    pair = Pair()
    put = pair.ledger.new("p", "EWR", "FLIGHTS", 4, 50, None)
    assert records.decode(put.record) == Fields(put.record[records.HEAD_BYTES :], 4)
    assert len(put.record) == records.HEAD_BYTES + 50
