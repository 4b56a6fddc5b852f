"""Tests of the receiving end of a link's stream: over several paths, ordered or unordered."""

from itertools import pairwise
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, FieldInvalid
from qmgrd.core.layout import keys
from qmgrd.core.link.inbox import LinkInbox
from qmgrd.core.sessions.link_streams import STREAMS_MAX
from tests.qmgrd.core.far import FAR_STORE, STREAM, Far, message
from tests.qmgrd.core.harness import AnyStore, Client, Manager

ONE, TWO = b"1" * 16, b"2" * 16


def opened(app: Client, path: int, life: bytes = ONE, *, ordered: bool = False) -> Far:
    far = Far(app.manager)
    far.open(life=life, path=path, ordered=ordered)
    return far


@pytest.fixture
def paths(app: Client) -> tuple[Far, Far]:
    app.ask(m.QueueCreate, "R")
    return opened(app, 0), opened(app, 1)


def tick(far: Far) -> list[Any]:
    far.manager.turn(far.manager.config.link.commit_interval_ms)
    return far.client.hear()


def inbound(app: Client) -> dict[str, object]:
    (row,) = app.ask(m.LinkList)["inbound"]
    return dict(row)


# -- paths


def test_ids_come_over_any_path_and_each_is_told_what_came_over_it_B25(
    app: Client, paths: tuple[Far, Far]
) -> None:
    one, two = paths
    two.send(3, message(3), message(4))
    assert tick(two) == [m.Committed(1, 0, held=[[3, 2]], taken=2)]
    one.send(1, message(1), message(2))
    assert tick(one) == [m.Committed(1, 4, taken=2)]
    assert tick(two) == []
    assert app.bodies("Q") == [b"3", b"4", b"1", b"2"]
    assert (inbound(app)["connections"], inbound(app)["commit_id"]) == (2, 4)


def test_copy_over_another_path_is_discarded_counted_and_told_as_taken_B29(
    app: Client, paths: tuple[Far, Far]
) -> None:
    one, two = paths
    one.send(1, message(1), message(2))
    two.send(1, message(1), message(2))
    assert tick(two)[-1] == m.Committed(1, 2, taken=2)
    assert app.bodies("Q") == [b"1", b"2"]
    assert inbound(app)["duplicates"] == 2


def test_path_that_is_lost_leaves_the_others(app: Client, paths: tuple[Far, Far]) -> None:
    one, two = paths
    one.client.hang_up()
    app.manager.turn()
    two.send(1, message(1))
    assert two.committed() == [1]
    assert inbound(app)["connections"] == 1


def test_newer_connection_has_the_path(app: Client, paths: tuple[Far, Far]) -> None:
    one, two = paths
    again = opened(app, 0)
    assert (one.client.goaway is not None, two.client.goaway) == (True, None)
    again.send(1, message(1))
    assert again.committed() == [1]


def test_newer_life_closes_all_paths_of_the_older(app: Client, paths: tuple[Far, Far]) -> None:
    opened(app, 1, TWO)
    for far in paths:
        assert far.client.goaway is not None
        assert far.client.goaway.code == ErrorCode.LINK_FENCED


def test_opening_that_was_long_under_way_is_closed_itself(app: Client) -> None:
    late = Far(app.manager)
    opened(app, 0, TWO)
    late.client.say(m.LinkOpen(1, STREAM, 1, 1, ONE, 1))
    assert late.client.goaway is not None
    assert late.client.goaway.code == ErrorCode.LINK_FENCED


def test_incarnation_is_another_one_once_no_path_was_open(
    store: AnyStore, app: Client, paths: tuple[Far, Far]
) -> None:
    one, two = paths
    assert one.incarnation == two.incarnation
    for far in paths:
        far.client.hang_up()
    app.manager.turn()
    again = opened(app, 0)
    assert again.incarnation != one.incarnation
    app.manager.crash()
    assert opened(app, 0).incarnation not in (one.incarnation, again.incarnation)


def test_row_of_a_stream_that_both_paths_moved_has_what_both_brought(
    store: AnyStore, app: Client, paths: tuple[Far, Far]
) -> None:
    one, two = paths
    one.client.send(m.Put(1, 1, 0, "Q", [message(1)]))
    two.client.send(m.Put(1, 3, 0, "Q", [message(3)]))
    app.manager.turn()
    app.manager.crash()
    assert Far(app.manager).open()[:2] == [1, [3]]


# -- peers that may open a stream


def test_queue_takes_from_links_only_where_it_lets_them_in(app: Client) -> None:
    app.ask(m.QueueCreate, "CLOSED", {"transfer_in": False})
    app.ask(m.QueueCreate, "ALSO", {"alias_of": "CLOSED"})
    far = opened(app, 0)
    for number, queue in ((1, "CLOSED"), (2, "ALSO")):
        (blocked,) = [x for x in far.send(number, message(number), queue=queue) if x.code]
        assert blocked.code == ErrorCode.TRANSFER_REFUSED
    app.put("CLOSED", b"of a client")
    assert app.bodies("CLOSED") == [b"of a client"]
    app.ask(m.QueueAlter, "CLOSED", {"transfer_in": True})
    far.send(1, message(1), message(2), queue="ALSO")
    assert far.committed() == [2]


# -- in order (D6)


@pytest.fixture
def ordered(app: Client) -> Far:
    return opened(app, 0, ordered=True)


def test_what_lies_behind_a_gap_is_hidden_until_it_closes_B7(app: Client, ordered: Far) -> None:
    ordered.send(1, message(1))
    ordered.send(4, message(4), message(5))
    assert app.bodies("Q") == [b"1"]
    assert inbound(app)["in_line"] == 2
    assert tick(ordered) == [m.Committed(1, 1, taken=3)], "received, but not held"
    ordered.send(2, message(2))
    assert app.bodies("Q") == [b"1", b"2"]
    ordered.send(3, message(3))
    assert app.bodies("Q") == [b"1", b"2", b"3", b"4", b"5"]
    assert tick(ordered) == [m.Committed(1, 5, taken=5)]
    assert inbound(app)["in_line"] == 0


def test_line_is_of_all_paths(app: Client, ordered: Far) -> None:
    other = opened(app, 1, ordered=True)
    other.send(3, message(3))
    ordered.send(1, message(1), message(2))
    assert app.bodies("Q") == [b"1", b"2", b"3"]


def test_overlapping_puts_are_stored_once(app: Client, ordered: Far) -> None:
    ordered.send(3, message(3), message(4))
    ordered.send(3, message(3))
    ordered.send(2, message(2), message(3))
    ordered.send(1, message(1), message(2))
    assert app.bodies("Q") == [b"1", b"2", b"3", b"4"]


def test_nothing_behind_a_refusal_is_stored_for_whatever_queue_B19(app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    ordered = opened(app, 0, ordered=True)
    ordered.send(1, message(1), queue="SMALL")
    ordered.send(4, message(4))
    (blocked,) = ordered.send(2, message(2), message(3), queue="SMALL")
    assert (blocked.seq_id, blocked.code, blocked.taken) == (2, ErrorCode.QUEUE_FULL, 4)
    assert app.bodies("Q") == []
    app.ack(*app.get("SMALL"))
    ordered.send(2, message(2), queue="SMALL")
    app.ack(*app.get("SMALL"))
    ordered.send(3, message(3), queue="SMALL")
    assert app.bodies("Q") == [], "the refusal discarded the waiting puts"
    ordered.send(4, message(4))
    assert app.bodies("Q") == [b"4"]


def test_record_that_is_refused_keeps_back_the_rest_of_its_put(app: Client) -> None:
    app.ask(m.QueueCreate, "SHORT", {"message_max_bytes": 100})
    ordered = opened(app, 0, ordered=True)
    long = message(2)[:-1] + bytes(200) + message(2)[-1:]
    (blocked,) = ordered.send(1, message(1), long, message(3), queue="SHORT")
    assert blocked.seq_id == 2
    assert app.bodies("SHORT") == [b"1"]


def test_put_without_records_does_not_stay_in_the_line(app: Client) -> None:
    """It would take memory that is not counted."""
    ordered = opened(app, 0, ordered=True)
    for seq_id in range(3, 40):
        ordered.send(seq_id)
    (stream,) = app.manager.turns.broker.streams.links.open_streams.values()
    assert stream.in_line == {}
    assert ordered.send(1, message(1), message(2)) == []
    assert app.bodies("Q") == [b"1", b"2"]


def test_line_has_a_limit_of_its_own() -> None:
    manager = Manager(link={"window_bytes": "1 KiB"})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    ordered = opened(app, 0, ordered=True)
    sizes = [ordered.send(2 + i, message(2 + i)) for i in range(40)]
    (blocked,) = next(heard for heard in sizes if heard)
    assert blocked.code == ErrorCode.LINK_LINE_FULL
    assert blocked.retry_after_ms == 100
    assert int(str(inbound(app)["in_line"])) < 40
    ordered.send(1, message(1))
    assert len(app.bodies("Q")) > 1


@pytest.fixture(params=[1, 1_000], ids=["reported by count", "reported by time"])
def lined_up(request: pytest.FixtureRequest) -> tuple[Client, Far]:
    """40 puts wait after a gap at a queue manager with short turns."""
    manager = Manager(
        limits={"turn_rows": 20}, link={"commit_messages": request.param, "commit_interval_ms": 1}
    )
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    ordered = opened(app, 0, ordered=True)
    for i in range(2, 42):
        ordered.send(i, message(i))
    return app, ordered


def test_long_line_is_applied_in_slices_without_reports(lined_up: tuple[Client, Far]) -> None:
    """Otherwise, the sender would repeat the waiting puts, as if they had been discarded."""
    app, ordered = lined_up
    manager = app.manager
    assert ordered.send(1, message(1)) == []
    depths = [manager.queue("Q").counters.depth]
    told: list[Any] = []
    while manager.turns.has_work or not told:
        outcome = manager.turn(1)
        depths.append(manager.queue("Q").counters.depth)
        told += [x for _, x in outcome.sends]
    assert told == [m.Committed(1, 41, taken=41)]
    assert len(depths) > 3
    assert max(later - earlier for earlier, later in pairwise(depths)) < 20
    assert app.bodies("Q") == [b"%d" % i for i in range(1, 42)]


def test_invalid_waiting_put_is_the_senders_fault(lined_up: tuple[Client, Far]) -> None:
    """A later turn applies a waiting put. An error of such a put once stopped the daemon."""
    app, ordered = lined_up
    ordered.client.say(m.Put(ordered.stream, 42, 0, "", [message(42)]))
    assert ordered.client.goaway is not None
    assert ordered.client.goaway.code == ErrorCode.FIELD_INVALID
    app.put("Q", b"others go on")


def test_fault_of_what_waited_parts_from_its_sender(
    lined_up: tuple[Client, Far], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, ordered = lined_up
    assert ordered.send(1, message(1)) == []

    def fail(self: LinkInbox, *arguments: object) -> None:
        raise FieldInvalid("Put", "records", "are wrong")

    monkeypatch.setattr(LinkInbox, "receive", fail)
    app.manager.turn()
    ordered.client.hear()
    assert ordered.client.goaway is not None
    assert ordered.client.goaway.code == ErrorCode.FIELD_INVALID
    monkeypatch.undo()
    app.put("Q", b"others go on")


def test_line_goes_on_over_another_path_where_its_own_is_lost(lined_up: tuple[Client, Far]) -> None:
    app, ordered = lined_up
    other = opened(app, 1, ordered=True)
    ordered.send(1, message(1))
    ordered.client.hang_up()
    app.manager.rest()
    assert app.bodies("Q") == [b"%d" % i for i in range(1, 42)]
    assert other.client.goaway is None


def test_line_that_was_being_taken_is_forgotten_with_the_last_path(
    lined_up: tuple[Client, Far],
) -> None:
    app, ordered = lined_up
    ordered.send(1, message(1))
    ordered.client.hang_up()
    app.manager.rest()
    stored = app.manager.queue("Q").counters.depth
    assert 1 < stored < 41
    again = opened(app, 0, ordered=True)
    again.send(stored + 1, message(stored + 1))
    assert app.bodies("Q") == [b"%d" % i for i in range(1, stored + 2)]


def test_line_is_forgotten_with_the_last_path(app: Client, ordered: Far) -> None:
    ordered.send(2, message(2))
    ordered.client.hang_up()
    app.manager.turn()
    again = opened(app, 0, ordered=True)
    again.send(1, message(1))
    assert app.bodies("Q") == [b"1"]


def test_extras_go_with_their_records(app: Client, ordered: Far) -> None:
    """The second of three messages has 1 ms left, and has expired when a get looks for it."""
    extras: list[list[object]] = [[1, {m.EXTRA_EXPIRY_MS: 1}]]
    batch = [message(1), message(2), message(3)]
    ordered.client.say(m.Put(1, 1, 0, "Q", batch, extras))
    app.manager.turn(10)
    assert [x.body for x in app.get("Q", 9)] == [b"1", b"3"]


def test_lowest_id_above_the_next_one_breaks_the_protocol(app: Client) -> None:
    far = Far(app.manager)
    far.client.say(m.LinkOpen(1, STREAM, 1, 100, ONE, 0, False, 101))
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.FIELD_INVALID


@pytest.mark.parametrize("seq_id", [2**53, 2**62])
def test_stream_cannot_begin_where_the_store_ends(app: Client, seq_id: int) -> None:
    """A row with such an id would look damaged when it is read."""
    for base_id, lowest_id in ((seq_id, seq_id), (1, seq_id), (1, 1)):
        far = Far(app.manager)
        far.client.say(m.LinkOpen(1, STREAM, base_id, seq_id, ONE, 0, False, lowest_id))
        assert far.client.goaway is not None
        assert far.client.goaway.code == ErrorCode.FIELD_INVALID
    opened(app, 0)


def test_ids_beyond_their_end_break_the_protocol(app: Client) -> None:
    far = opened(app, 0)
    far.client.say(m.Put(far.stream, 2**63 - 1, 0, "Q", [message(1), message(2)]))
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.FIELD_INVALID


def test_waiting_puts_are_discarded_when_the_link_is_no_longer_ordered(
    app: Client, ordered: Far
) -> None:
    ordered.send(3, message(3))
    other = opened(app, 1)
    other.send(1, message(1), message(2))
    assert app.bodies("Q") == [b"1", b"2"]
    assert inbound(app)["in_line"] == 0


def test_rows_of_a_put_may_say_more_than_is_known(app: Client) -> None:
    """Later versions may make these rows longer. A longer row must not stop the daemon."""
    app.ask(m.QueueCreate, "R")
    far = opened(app, 0)
    far.client.say(m.Put(far.stream, 1, 0, "R", [message(1)], [[0, {}, "more"]]))
    assert far.committed() == [1]
    assert app.bodies("R") == [b"1"]


# -- the limit of streams per peer


def stream_ids(manager: Manager) -> list[int]:
    return [int.from_bytes(key[17:], "big") for key, _ in manager.scan(keys.SPACE_LINK_INBOX)]


def numbered(number: int) -> bytes:
    return FAR_STORE + number.to_bytes(8, "big")


def test_oldest_stream_of_a_peer_gives_way_to_a_new_one(app: Client) -> None:
    manager = app.manager
    for number in range(1, STREAMS_MAX + 6):
        far = Far(manager)
        far.open(numbered(number))
        far.send(1, message(number))
        far.client.hang_up()
    assert stream_ids(manager) == list(range(6, STREAMS_MAX + 6))
    assert Far(manager).open(numbered(6))[0] == 1  # An existing stream is found again.
    other = Far(manager, "OTHER", b"O" * 16)
    other.open(b"O" * 16 + bytes(8))
    other.send(1, message(99))
    assert len(stream_ids(manager)) == STREAMS_MAX + 1  # Each peer has a separate limit.


def test_streams_that_are_open_do_not_give_way(app: Client) -> None:
    manager, far = app.manager, Far(app.manager)
    for number in range(1, STREAMS_MAX + 1):
        far.open(numbered(number))
        far.send(1, message(number))
    late = Far(manager).client
    asked = numbered(STREAMS_MAX + 1), 1, 100, b"", 0, False
    assert late.code_of(m.LinkOpen, *asked) == ErrorCode.LINKS_EXHAUSTED
    far.client.hang_up()
    manager.turn()
    assert late.ask(m.LinkOpen, *asked)[1] == 0


def test_full_store_lets_known_streams_go_on_and_no_new_ones_begin(app: Client) -> None:
    manager, far = app.manager, Far(app.manager)
    far.open()
    far.send(1, message(1))
    far.client.hang_up()
    manager.store.disk_free_bytes = 0
    again = Far(manager)
    assert again.open()[0] == 1
    assert again.client.code_of(m.LinkOpen, numbered(2), 1, 100) == ErrorCode.STORE_FULL
