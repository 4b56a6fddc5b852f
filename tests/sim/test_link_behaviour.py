"""What document 2 asks of a link (BEHAVIOUR.md, 7.2), end to end: two production cores and a wire.

tests/qmgrd/core has each end by itself; here both are real, so that they have to agree.
"""

from itertools import pairwise
from typing import Any

import pytest

from qmgr_client.message import PutResult
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.link import LinkState
from tests.sim.pair import EDGE, HUB, REMOTE, Caller, Pair, Sender, Stranger, stored

SELDOM: dict[str, Any] = {"link": {"commit_messages": 100_000, "commit_interval_ms": 60_000}}


def test_source_keeps_messages_and_ids_over_a_crash_b1() -> None:
    pair = Pair()
    pair.hub.die()
    pair.put(5)
    before = stored(pair.edge, pair.queue(pair.edge, f"@{HUB}"))
    pair.edge.die()
    pair.edge.start()
    assert stored(pair.edge, pair.queue(pair.edge, f"@{HUB}")) == before
    assert list(before) == [1, 2, 3, 4, 5]


def test_message_is_sent_again_under_its_id_b2() -> None:
    pair = Pair()
    pair.settle()
    pair.link_wire().go_dark()
    pair.put(3)
    assert pair.sent() == [1, 2, 3]
    pair.cut_link()
    pair.advance(1_000)
    assert pair.sent() == [1, 2, 3]
    assert len(pair.reader.get("FLIGHTS")) == 3


def test_ids_of_one_stream_may_come_in_any_order_b3() -> None:
    """An older message comes late, as it would over a second path."""
    pair, link = _by_hand()
    link.put(3)
    link.put(1)
    link.put(2)
    assert pair.reader.get("FLIGHTS") == [b"3", b"1", b"2"]


def test_commit_id_is_the_end_of_the_consecutive_run_b4() -> None:
    pair, link = _by_hand()
    link.put(1, 2)
    link.put(4, 5)
    pair.advance(1_000)
    assert link.commit_ids() == [2]
    link.put(3)
    pair.advance(1_000)
    assert link.commit_ids() == [5]


def test_nothing_is_committed_before_it_is_durable_b5() -> None:
    pair = Pair()
    pair.hub.store.crash = "before"
    bodies = pair.put(3)
    assert not pair.hub.up
    assert pair.commits() == []
    pair.hub.start()
    pair.advance(10_000)
    assert pair.reader.get("FLIGHTS") == bodies
    assert stored(pair.edge, pair.link.queue) == {}


def test_message_is_to_be_had_though_no_commit_was_sent_b6() -> None:
    pair = Pair(hub=SELDOM)
    bodies = pair.put(7)
    assert pair.reader.get("FLIGHTS") == bodies
    assert pair.commits() == []
    assert len(stored(pair.edge, pair.link.queue)) == 7


def test_gap_hides_nothing_behind_it_b7() -> None:
    pair, link = _by_hand()
    link.put(1, 2)
    link.put(4, 5)
    assert pair.reader.get("FLIGHTS") == [b"1", b"2", b"4", b"5"]


def test_commits_are_occasional_b8() -> None:
    """N = 1000 and k = 50: N + N/k flows, where a confirm for each message takes 4 N."""
    window = {"window_messages": 50, "commit_messages": 50, "commit_interval_ms": 60_000}
    pair = Pair(edge={"link": window}, hub={"link": window})
    pair.put(1_000)
    assert len(pair.sent()) == 1_000
    assert pair.commits() == list(range(50, 1_001, 50))


def test_commit_deletes_at_the_source_in_one_turn_b9() -> None:
    pair = Pair(hub={"link": {"commit_messages": 50, "commit_interval_ms": 60_000}})
    pair.hub.die()
    pair.put(50)
    turn = pair.edge.turns.broker.context.turn_number
    pair.hub.start()
    pair.advance(1_000)
    assert stored(pair.edge, pair.link.queue) == {}
    assert pair.edge.turns.broker.context.turn_number == turn + 1


def test_only_what_is_missing_is_sent_after_a_drop_b13() -> None:
    pair = Pair(edge={"link": {"window_messages": 30}}, hub=SELDOM)
    bodies = pair.put(100)
    assert pair.sent() == list(range(1, 31))
    assert len(stored(pair.hub, pair.queue(pair.hub, "FLIGHTS"))) == 30
    pair.hub.config = pair.hub.config.model_copy(update={"link": pair.edge.config.link})
    pair.hub.die()
    pair.hub.start()
    pair.advance(10_000)
    assert pair.sent() == list(range(31, 101))
    assert pair.link.resent == 0
    assert pair.reader.get("FLIGHTS") == bodies


def test_message_consumed_before_its_commit_does_not_come_twice_b14() -> None:
    pair = Pair(hub=SELDOM)
    bodies = pair.put(5)
    assert pair.reader.get("FLIGHTS") == bodies
    pair.hub.die()
    pair.hub.start()
    pair.advance(100_000)
    assert pair.reader.get("FLIGHTS") == []
    assert stored(pair.edge, pair.link.queue) == {}


def test_message_consumed_before_its_commit_is_discarded_when_it_comes_again_b14_b29() -> None:
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
def test_lost_late_and_repeated_commits_end_the_same_b15(commit_ids: list[int]) -> None:
    pair, hub = _with_stranger()
    pair.put(3)
    for commit_id in commit_ids:
        hub.say(m.Committed(1, commit_id))
        pair.settle()
    assert stored(pair.edge, pair.link.queue) == {}
    assert (pair.link.state, pair.link.outbox.commit_id) == (LinkState.UP, 3)


def test_commit_of_what_was_never_sent_is_refused_and_deletes_nothing_b28() -> None:
    pair, hub = _with_stranger()
    pair.put(3)
    hub.say(m.Committed(1, 4))
    pair.settle()
    assert [goaway.code for goaway in hub.heard_of(m.Goaway)] == [ErrorCode.COMMIT_OUT_OF_RANGE]
    assert len(stored(pair.edge, pair.link.queue)) == 3


def test_full_queue_at_the_hub_holds_the_link_until_it_drains_b19() -> None:
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


def test_unknown_queue_at_the_hub_holds_the_link_until_it_is_created() -> None:
    pair = Pair()
    pair.at_edge.ask(lambda i: m.QueueCreate(i, f"LATE@{HUB}"))
    late = pair.put(3, f"LATE@{HUB}")
    assert pair.link.describe()["state"] == "blocked"
    assert "QUEUE_UNKNOWN" in pair.link.error
    pair.at_hub.ask(lambda i: m.QueueCreate(i, "LATE"))
    pair.advance(30_000)
    assert pair.reader.get("LATE") == late
    assert pair.link.state is LinkState.UP


def test_what_a_full_queue_holds_up_goes_on_behind_it_after_a_crash_of_the_source() -> None:
    """The hub holds ids above the gap, so its next commit id may jump past all that was resent."""
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


# Who may go on with a stream


def test_source_put_back_to_an_earlier_state_is_refused_restored_b21() -> None:
    pair = Pair()
    pair.put(3)
    old = dict(pair.edge.store.rows)
    pair.put(3)
    pair.advance(1_000)
    _put_back(pair, EDGE, old)
    assert pair.link.state is LinkState.REFUSED
    assert "RESTORED" in pair.link.error
    assert "holds up to id 6" in pair.link.error


def test_source_put_back_that_gave_its_ids_to_other_messages_is_refused_restored_b21() -> None:
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
    assert "another message" in pair.link.error
    assert len(stored(pair.edge, pair.link.queue)) == 8


def test_destination_put_back_to_an_earlier_state_is_refused_peer_restored_b22() -> None:
    pair = Pair()
    pair.put(3)
    pair.advance(1_000)
    old = dict(pair.hub.store.rows)
    pair.put(3)
    pair.advance(1_000)
    _put_back(pair, HUB, old)
    assert pair.link.state is LinkState.REFUSED
    assert "PEER_RESTORED" in pair.link.error
    assert "holds up to id 3, but had committed 6" in pair.link.error


def test_destination_with_a_new_store_is_refused_peer_store_changed_b22() -> None:
    pair = Pair()
    pair.put(3)
    pair.hub.store_id = b"X" * 16
    _put_back(pair, HUB, {})
    assert pair.link.state is LinkState.REFUSED
    assert "PEER_STORE_CHANGED" in pair.link.error


def test_source_with_a_new_store_is_refused_peer_store_changed_b20() -> None:
    pair = Pair()
    pair.put(3)
    pair.edge.store_id = b"X" * 16
    _put_back(pair, EDGE, {})
    pair.make_link()
    pair.advance(1_000)
    assert pair.link.state is LinkState.REFUSED
    assert "PEER_STORE_CHANGED" in pair.link.error


def test_link_that_is_deleted_and_made_anew_begins_at_one_b20() -> None:
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


def test_refused_link_goes_on_once_an_operator_has_seen_to_it() -> None:
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
    pair, older = _by_hand()
    newer = Sender(pair)
    assert ErrorCode.LINK_FENCED in older.goodbyes
    newer.put(1)
    assert pair.reader.get("FLIGHTS") == [b"1"]


def test_opening_that_was_long_under_way_does_not_fence_a_newer_connection() -> None:
    pair = Pair()
    older = Sender(pair, opens=False)
    newer = Sender(pair)
    older.open()
    assert ErrorCode.LINK_FENCED in older.goodbyes
    newer.put(1)
    assert pair.reader.get("FLIGHTS") == [b"1"]


def test_producer_whose_older_opening_arrives_late_goes_on() -> None:
    """Its client would take the fence for another process with its id, and end for good."""
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


# Redialling


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


def test_lost_link_is_dialled_again_soon_once_it_was_up() -> None:
    pair = Pair()
    pair.settle()
    before_ms = pair.now_ms
    pair.cut_link()
    while pair.link.state is not LinkState.UP or pair.now_ms == before_ms:
        pair.advance(1)
    assert 50 <= pair.now_ms - before_ms <= 101


# Helpers


def _by_hand() -> tuple[Pair, Sender]:
    pair = Pair(linked=False)
    return pair, Sender(pair)


def _with_stranger() -> tuple[Pair, Stranger]:
    pair, hub = Pair(linked=False), Stranger()
    pair.strangers["nyc"] = lambda: hub
    pair.make_link("nyc")
    pair.settle()
    return pair, hub


def _put_back(pair: Pair, name: str, rows: dict[bytes, bytes]) -> None:
    """Have a queue manager start from an older state of its store, and the link try again."""
    node = pair.nodes[name]
    node.die()
    node.store.rows.clear()
    node.store.rows.update(rows)
    node.start()
    pair.advance(60_000)
