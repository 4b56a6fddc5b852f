"""Tests of bugs that the simulator found. Each test replays a bug, and fails without its fix."""

from qmgr_client.message import Outgoing, encode
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.connection import Connection
from qmgr_protocol.record import Fields
from qmgr_protocol.states import Side
from qmgrd.core.jobs.retention import RETENTION_PERIOD_MS
from qmgrd.core.layout import keys
from qmgrd.core.layout.counters import Counters
from qmgrd.core.link.link import LinkState
from tests.sim.audit_rows import rows_of
from tests.sim.ledger import Traits
from tests.sim.pair import HUB, REMOTE, Caller, Pair, Sender, Stranger
from tests.sim.wire import Wire


class Quick:
    """A client that dials, and sends hello and goodbye together."""

    def __init__(self) -> None:
        self.heard = b""

    def opened(self, wire: Wire) -> None:
        connection = Connection(Side.DIALLER)
        hello = connection.send(m.Hello(m.MAGIC, m.VERSION, m.VERSION, "client", "quick"))
        wire.send(self, hello + connection.send(m.Goaway(0, "never mind")))

    def received(self, data: bytes) -> None:
        self.heard += data

    def lost(self, why: str) -> None:
        """Ignores the loss."""


def test_goodbye_right_after_a_hello_ends_the_connection() -> None:
    """Seed 0, step 1066: The welcome was sent on a connection that was already closed."""
    pair = Pair(linked=False)
    quick = Quick()
    pair.connect(quick, pair.hub)
    pair.settle()
    assert quick.heard == b""
    assert not any(port.peer.peer_name == "quick" for port in pair.hub.ports.values())


def test_maybe_survives_a_clean_stop() -> None:
    """Seed 10, step 2033: After a crash and a clean stop, a redelivery was marked as the first."""
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


def test_late_data_of_a_given_up_connection_is_ignored() -> None:
    """Seed 403, step 2278: A Blocked after a LinkStop left the link up without a connection."""
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


def test_commit_id_is_sent_on_the_connection_that_took_over() -> None:
    """Seed 10718: The timer of the older connection sent the commit id there.

    The sender then waited for ever.
    """
    pair = Pair(hub={"link": {"commit_interval_ms": 1_000}}, linked=False)
    older, newer = Sender(pair), Sender(pair, opens=False)
    older.put(1)
    older.send_put(2)
    # The newer connection opens in the turn of the put, so that both use the same window in memory.
    newer.open()
    newer.put(3)
    pair.advance(5_000)
    assert newer.commit_ids() == [3]


def test_producer_that_comes_and_goes_in_the_turn_of_the_retention_is_counted() -> None:
    """Seed 100573: The row was removed as too old, written again, and counted as removed."""
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


def test_link_blocked_repeatedly_keeps_within_the_put_window_of_a_slow_peer() -> None:
    """Seed 101478: Each retry sent another window, although none had been accepted."""
    limits = {"put_window_messages": 8, "turn_requests": 1}
    pair = Pair(hub={"limits": limits})
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "SMALL", {"depth_max": 1}))
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"SMALL@{HUB}"))
    pair.hub.die()
    for _ in range(10):
        pair.put(1, f"SMALL@{HUB}")
        pair.put(1)
    pair.hub.start()
    # The hub accepts one put per half second, and a retry happens each second.
    for _ in range(100):
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
    """The workloads put the same bytes as a client does."""
    pair = Pair()
    put = pair.ledger.new("p", "EWR", "FLIGHTS", Traits(4, 50))
    assert records.decode(put.record) == Fields(put.record[records.HEAD_BYTES :], 4)
    assert len(put.record) == records.HEAD_BYTES + 50


def put(caller: Caller, queue: str, *outgoing: Outgoing) -> None:
    """Puts messages that consist of more than a body."""
    for one in outgoing:
        caller.core.put(queue, encode(one))
    caller.settle_down()


def test_late_ack_settles_a_message_that_waits_for_its_retry() -> None:
    """Seed 0, step 1748: The ack succeeded, but the message was delivered again."""
    pair = Pair(linked=False)
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "SLOW", {"retry_initial_ms": 60_000}))
    pair.reader.put("SLOW", [b"x"])
    (message,) = pair.reader.request(m.Get, "SLOW", 1, 0, 100, 1_000)
    pair.advance(200)
    assert pair.queue(pair.hub, "SLOW").counters.delayed == 1
    ticket = pair.reader.core.settle(message, m.ACK)
    pair.reader.settle_down()
    assert pair.reader.results[ticket] is None
    pair.advance(120_000)
    assert pair.reader.get("SLOW") == []
    assert pair.queue(pair.hub, "SLOW").counters.acked == 1


def test_message_lost_at_a_restart_is_not_also_counted_as_expired() -> None:
    """Seed 27, step 1000: The counters of a queue did not match the puts."""
    pair = Pair(linked=False)
    put(pair.reader, "FLIGHTS", Outgoing(b"x", expiry_ms=100, persistent=False))
    pair.hub.die()
    pair.now_ms += 1_000
    pair.hub.start()
    pair.settle()
    counters = pair.queue(pair.hub, "FLIGHTS").counters
    assert (counters.lost, counters.expired, counters.depth) == (1, 0, 0)


def test_message_lost_at_a_restart_does_not_return_when_its_delay_ends() -> None:
    """Seed 27: The delay of a lost message ended before the row was removed."""
    pair = Pair(linked=False)
    put(pair.reader, "FLIGHTS", Outgoing(b"x", delay_ms=100, persistent=False))
    pair.hub.die()
    pair.now_ms += 1_000
    pair.hub.start()
    pair.settle()
    assert pair.reader.get("FLIGHTS") == []
    assert pair.queue(pair.hub, "FLIGHTS").counters.depth == 0


def test_message_lost_at_a_restart_does_not_return_after_the_next_restart() -> None:
    """Seed 29, step 2159: The row was not removed yet, so the message was delivered again."""
    pair = Pair(hub={"limits": {"turn_rows": 1}}, linked=False)
    put(pair.reader, "FLIGHTS", *[Outgoing(b"x", persistent=False)] * 20)
    pair.hub.die()
    pair.hub.start()
    pair.hub.turn()
    pair.hub.die()
    pair.hub.start()
    for flow in pair.flows():
        flow.deliver(1)  # The client notices the loss, and reconnects before the first turn.
    assert pair.reader.get("FLIGHTS") == []
    assert pair.queue(pair.hub, "FLIGHTS").counters.volatile == 0


def test_counters_know_of_a_restart_before_its_first_turn() -> None:
    """Seed 54, step 3500: Lost messages were stored as lost, but the counters included them."""
    pair = Pair(linked=False)
    put(pair.reader, "FLIGHTS", Outgoing(b"x", persistent=False))
    queue_id = pair.queue(pair.hub, "FLIGHTS").id
    pair.hub.die()
    pair.hub.start()
    assert Counters.read(pair.hub.store, queue_id, "FLIGHTS").lost == 1


def test_link_has_no_uid_for_an_expired_message() -> None:
    """Seed 40, step 2687: The peer was asked about a message that expired before it was sent."""
    pair = Pair(edge={"limits": {"turn_rows": 1}})
    pair.at_edge.ask(lambda i: m.LinkStop(i, HUB))
    put(pair.app, REMOTE, *[Outgoing(b"x", expiry_ms=500)] * 2)
    assert pair.link.outbox.uid_at(2) is not None
    pair.now_ms += 1_000
    pair.edge.turn()  # The turn removes one of the two, because it may remove only one row.
    assert pair.queue(pair.edge, f"@{HUB}").counters.depth == 1
    assert pair.link.outbox.uid_at(2) is None
