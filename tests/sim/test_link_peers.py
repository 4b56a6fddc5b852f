"""Tests of which peers may continue a stream, which are refused, and when links redial.

The tests restore stores to earlier states, and let peers claim false identities.
"""

from itertools import pairwise

from qmgr_client.message import Outgoing, PutResult, encode
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid
from qmgrd.core.link.link import LinkState
from tests.sim.pair import EDGE, HUB, REMOTE, Caller, Pair, Sender, Stranger, stored


def _put_back(pair: Pair, name: str, rows: dict[bytes, bytes]) -> None:
    """Restarts a queue manager with an older state of its store, and lets the link retry."""
    node = pair.nodes[name]
    node.die()
    node.store.rows.clear()
    node.store.rows.update(rows)
    node.start()
    pair.advance(60_000)


def test_source_restored_to_an_earlier_state_is_refused_restored_B21() -> None:
    pair = Pair()
    pair.put(3)
    old = dict(pair.edge.store.rows)
    pair.put(3)
    pair.advance(1_000)
    _put_back(pair, EDGE, old)
    assert pair.link.state is LinkState.REFUSED
    assert "RESTORED" in pair.link.error
    assert "holds up to id 6" in pair.link.error


def test_restored_source_that_gave_its_ids_to_other_messages_is_refused_restored_B21() -> None:
    pair = Pair()
    pair.put(3)
    old = dict(pair.edge.store.rows)
    pair.put(3)
    pair.advance(1_000)
    pair.hub.die()
    _put_back(pair, EDGE, old)
    pair.put(5)
    pair.hub.start()
    pair.advance(60_000)
    assert "RESTORED" in pair.link.error
    assert "hold different messages under id" in pair.link.error
    assert len(stored(pair.edge, pair.link.queue)) == 8


def test_restored_source_is_refused_even_if_the_message_that_reveals_it_has_expired_B21() -> None:
    """The restored source had given the peer's last id to a message that has since expired."""
    pair = Pair()
    pair.put(3)
    pair.advance(1_000)
    old = dict(pair.edge.store.rows)
    pair.put(3)
    pair.advance(1_000)
    pair.hub.die()
    _put_back(pair, EDGE, old)
    pair.put(2)
    pair.app.core.put(REMOTE, encode(Outgoing(b"short", expiry_ms=100)))
    pair.app.settle_down()
    pair.advance(1_000)
    pair.hub.start()
    pair.advance(60_000)
    assert "RESTORED" in pair.link.error
    assert len(stored(pair.edge, pair.link.queue)) == 2


def test_restored_source_is_refused_even_if_the_same_uid_has_the_same_id_B21() -> None:
    """The producer puts its message again, after two others that were never sent."""
    pair = Pair()
    pair.put(3)
    pair.advance(1_000)
    old = dict(pair.edge.store.rows)
    pair.put(2)
    pair.app.put(REMOTE, [b"own"], [Uid("APP", 3)])
    pair.advance(1_000)
    pair.hub.die()
    _put_back(pair, EDGE, old)
    pair.put(2)
    pair.app.put(REMOTE, [b"own"], [Uid("APP", 3)])
    pair.hub.start()
    pair.advance(60_000)
    assert "which this store has no record of sending" in pair.link.error
    assert len(stored(pair.edge, pair.link.queue)) == 3
    pair.at_edge.ask(lambda i: m.LinkStart(i, HUB, accept=True))
    pair.advance(60_000)
    assert stored(pair.edge, pair.link.queue) == {}


def test_source_restarted_often_is_not_taken_for_restored_B21() -> None:
    """A message is sent in one run, committed in another, and answered in a third."""
    pair = Pair(hub={"link": {"commit_interval_ms": 60_000}})
    for _ in range(4):
        pair.put(2)
        pair.settle()
        pair.hub.die()
        pair.edge.die()
        pair.edge.start()
        pair.advance(1_000)
        pair.put(1)
        pair.edge.die()
        pair.edge.start()
        pair.hub.start()
        pair.advance(5_000)
        assert pair.link.state is LinkState.UP, pair.link.error
    pair.advance(120_000)
    assert len(pair.reader.get("FLIGHTS")) == 12
    assert stored(pair.edge, pair.link.queue) == {}


def test_restored_destination_continues_and_reports_possible_losses_B22() -> None:
    pair = Pair()
    pair.put(3)
    pair.advance(1_000)
    old = dict(pair.hub.store.rows)
    pair.put(3)
    pair.advance(1_000)
    _put_back(pair, HUB, old)
    assert pair.link.state is LinkState.UP
    pair.put(2)
    pair.advance(1_000)
    assert stored(pair.edge, pair.link.queue) == {}
    assert len(pair.reader.get("FLIGHTS")) == 5, "of 8: three that were committed are lost"
    for node, name in ((pair.hub, b"link messages lost"), (pair.edge, b"link peer restored")):
        told = [value for value in node.store.rows.values() if name in value]
        assert len(told) == 1
        assert b'"lost": 3' in told[0]
    for node in (pair.hub, pair.edge):  # The report is permanent.
        node.die()
        node.start()
    pair.advance(60_000)
    (inbound,) = pair.at_hub.ask(m.LinkList)["inbound"]
    row = pair.at_edge.ask(lambda i: m.LinkShow(i, HUB))
    assert (row["lost"], inbound["lost"]) == (3, 3)
    assert row["lost_us"] > 1_700_000_000_000_000


def test_destination_with_a_new_store_is_refused_peer_store_changed_B22() -> None:
    pair = Pair()
    pair.put(3)
    pair.hub.store_id = b"X" * 16
    _put_back(pair, HUB, {})
    assert pair.link.state is LinkState.REFUSED
    assert "PEER_STORE_CHANGED" in pair.link.error


def test_source_with_a_new_store_is_refused_peer_store_changed_B20() -> None:
    pair = Pair()
    pair.put(3)
    pair.edge.store_id = b"X" * 16
    _put_back(pair, EDGE, {})
    pair.make_link()
    pair.advance(1_000)
    assert pair.link.state is LinkState.REFUSED
    assert "PEER_STORE_CHANGED" in pair.link.error


def test_link_deleted_and_created_again_begins_at_one_B20() -> None:
    pair = Pair()
    pair.put(3)
    pair.advance(1_000)
    pair.at_edge.ask(lambda i: m.QueueDelete(i, REMOTE))
    pair.at_edge.ask(lambda i: m.LinkDelete(i, HUB))
    pair.make_link()
    pair.put(2)
    assert pair.sent()[-2:] == [1, 2]
    assert len(pair.reader.get("FLIGHTS")) == 5


def test_address_of_another_queue_manager_is_refused_peer_wrong() -> None:
    pair = Pair(linked=False)
    pair.strangers["lga"] = lambda: Stranger("LGA")
    pair.make_link("lga")
    assert pair.link.state is LinkState.REFUSED
    assert "PEER_WRONG" in pair.link.error
    pair.advance(600_000)
    assert pair.dials == []


def test_refused_link_continues_once_an_operator_accepts_the_peer() -> None:
    pair = Pair(linked=False)
    wrong = Stranger("LGA")
    pair.strangers["nyc"] = lambda: wrong
    pair.make_link("nyc")
    right = Stranger(HUB)
    pair.strangers["nyc"] = lambda: right
    pair.at_edge.ask(lambda i: m.LinkStart(i, HUB))
    pair.advance(10)
    assert pair.link.state is LinkState.UP


def test_newest_connection_of_a_stream_fences_the_older() -> None:
    pair = Pair(linked=False)
    older = Sender(pair)
    newer = Sender(pair)
    assert ErrorCode.LINK_FENCED in older.goodbyes
    newer.put(1)
    assert pair.reader.get("FLIGHTS") == [b"1"]


def test_late_opening_does_not_fence_a_newer_connection() -> None:
    pair = Pair()
    older = Sender(pair, opens=False)
    newer = Sender(pair)
    older.open()
    assert ErrorCode.LINK_FENCED in older.goodbyes
    newer.put(1)
    assert pair.reader.get("FLIGHTS") == [b"1"]


def test_producer_whose_older_opening_arrives_late_continues() -> None:
    """Otherwise, the client would assume that another process has its id, and end permanently."""
    pair = Pair(linked=False)
    caller = Caller(pair, pair.hub, "producer")
    caller.settle_down()
    caller.core.put("FLIGHTS", b"", None)
    caller.core.put("FLIGHTS", b"", None)
    assert caller.wire is not None
    older = caller.wire
    caller.flush()
    older.flow_from(caller).clogged = True
    older.flow_to(caller).end = "lost"
    pair.settle()
    caller.settle_down()
    older.flow_from(caller).clogged = False
    pair.settle()
    assert caller.core.failed is None
    assert isinstance(caller.put("FLIGHTS", [b"x"])[0], PutResult)


# -- redialling


def test_waits_between_dials_double_up_to_a_bound_and_repeat_exactly() -> None:
    waits = _waits_of(HUB)
    assert waits == _waits_of(HUB)
    ceilings = [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]
    for wait_ms, ceiling_ms in zip(waits, ceilings, strict=False):
        assert ceiling_ms // 2 <= wait_ms <= ceiling_ms
    assert len(waits) >= len(ceilings)


def test_links_do_not_dial_in_step() -> None:
    assert _waits_of(HUB) != _waits_of("LGA")


def _waits_of(link: str) -> list[int]:
    pair = Pair(edge={"link": {"redial_max_ms": 5_000}}, linked=False)
    pair.at_edge.ask(lambda i: m.LinkCreate(i, link, {"addresses": ["nobody:1"]}))
    times: list[int] = []
    answer = pair.answer_dial

    def note(index: int, *, fails: bool = False) -> None:
        times.append(pair.now_ms)
        answer(index, fails=fails)

    pair.answer_dial = note  # type: ignore[method-assign]
    pair.edge.die()
    pair.edge.start()
    pair.advance(60_000)
    return [later - earlier for earlier, later in pairwise(times)]


def test_lost_link_is_dialled_again_soon_if_it_was_up() -> None:
    pair = Pair()
    pair.settle()
    pair.advance(pair.hub.config.link.redial_max_ms)  # A short connection would not count.
    before_ms = pair.now_ms
    pair.cut_link()
    while pair.link.state is not LinkState.UP or pair.now_ms == before_ms:
        pair.advance(1)
    assert 50 <= pair.now_ms - before_ms <= 101


def test_restored_source_that_gave_ids_above_a_gap_to_other_messages_is_refused_B21() -> None:
    pair = Pair()
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "SMALL", {"depth_max": 1}))
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"SMALL@{HUB}"))
    pair.put(1, f"SMALL@{HUB}")
    pair.advance(1_000)
    old = dict(pair.edge.store.rows)
    # The queue is full for id 2. In the same turn, id 3 is held above the gap.
    pair.app.core.put(f"SMALL@{HUB}", encode(Outgoing(b"2")))
    pair.app.core.put(REMOTE, encode(Outgoing(b"3")))
    pair.app.settle_down()
    pair.hub.die()
    _put_back(pair, EDGE, old)
    pair.app.put(REMOTE, [b"another 2", b"another 3"])
    pair.hub.start()
    pair.advance(60_000)
    kept = stored(pair.edge, pair.link.queue)
    arrived = pair.reader.get("FLIGHTS")
    assert len(kept) == 2 or b"another 3" in arrived
