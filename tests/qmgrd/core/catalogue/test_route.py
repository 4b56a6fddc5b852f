"""Tests of which link a message takes next, and of refusals. tests/sim tests complete routes."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue import route
from qmgrd.core.catalogue.system import DEAD_LETTERS
from qmgrd.core.queue import notes
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import Client, record


def put(*hops: list[str] | None) -> m.Put:
    """Returns a put with one record per entry of *hops*. The note of a record lists these hops."""
    extras: list[list[Any]] = [
        [index, {m.EXTRA_NOTE: {"hops": known}}]
        for index, known in enumerate(hops)
        if known is not None
    ]
    return m.Put(1, 10, 0, "Q@SFO", [message(i) for i in range(len(hops))], extras)


def told(found: m.Put) -> list[list[str]]:
    return [extra[m.EXTRA_NOTE]["hops"] for _, extra in found.extras]


def test_each_hop_is_added_after_the_first_sender() -> None:
    ((found, error),) = route.forwarded(put(None, ["EWR", "BOS"]), "EWR", "NYC")
    assert error is None
    assert (found.first_id, told(found)) == (10, [["EWR", "NYC"], ["EWR", "BOS", "NYC"]])


def test_message_that_was_here_before_is_refused_with_its_route() -> None:
    found = list(route.forwarded(put(None, ["NYC", "BOS"], None, None), "EWR", "NYC"))
    assert [(x.first_id, len(x.records)) for x, _ in found] == [(10, 1), (11, 1), (12, 2)]
    errors = [error for _, error in found]
    assert errors[0] is errors[2] is None
    assert errors[1] is not None
    assert errors[1].code == ErrorCode.ROUTE_LOOP
    assert "was already here: NYC -> BOS -> NYC" in errors[1].text


def test_seventeenth_hop_is_one_too_many() -> None:
    way = [f"M{i}" for i in range(16)]
    assert [error for _, error in route.forwarded(put(way[:15]), "EWR", "NYC")] == [None]
    ((_, error),) = route.forwarded(put(way), "EWR", "NYC")
    assert error is not None
    assert "came through 16 queue managers" in error.text


@pytest.mark.parametrize("hops", ["EWR", 7, [7], [""], ["x" * 65], ["A"] * 17])
def test_message_with_an_invalid_route_is_refused(hops: Any) -> None:
    """Otherwise, messages could circulate for ever through a peer that omits earlier hops."""
    ((_, error),) = route.forwarded(put(hops), "EWR", "NYC")
    assert error is not None
    assert error.code == ErrorCode.ROUTE_LOOP


def test_way_stays_in_a_note_that_has_to_be_cut() -> None:
    note = {"hops": ["EWR", "BOS"], "attempts": [[1, 2, "x", "y" * 20_000, "z"]] * 3, "more": 7}
    cut = notes.decode(notes.encode(note | {"other": "x" * 40_000}))
    assert cut["hops"] == ["EWR", "BOS"]


def test_route_of_an_arrived_message_is_reported_and_no_longer_counts() -> None:
    found = route.arrived(put(["EWR", "BOS"], None))
    assert found.extras[0][1][m.EXTRA_NOTE] == {"came": ["EWR", "BOS"]}
    assert route.arrived(put(None)) == put(None)


def test_own_link_goes_before_a_route_and_a_route_before_any(app: Client) -> None:
    for name, routes in (("A", ["C", "*"]), ("B", ["X"]), ("C", [])):
        app.ask(m.LinkCreate, name, {"addresses": ["h:1"], "routes": routes, "stopped": True})
    catalogue = app.manager.turns.broker.catalogue
    ways = [route.route_to(catalogue, "Q", manager) for manager in ("C", "X", "Y")]
    assert [(queue.name, target) for queue, target in ways] == [
        ("@C", "Q"),
        ("@B", "Q@X"),
        ("@A", "Q@Y"),
    ]


def test_route_that_remote_queues_need_stays(app: Client) -> None:
    app.ask(m.LinkCreate, "A", {"addresses": ["h:1"], "routes": ["X"], "stopped": True})
    app.ask(m.QueueCreate, "Q@X")
    with pytest.raises(RequestError, match="remote queues still need these routes"):
        app.ask(m.LinkAlter, "A", {"routes": []})
    assert app.ask(m.LinkShow, "A")["routes"] == ["X"]
    assert app.code_of(m.LinkDelete, "A") is ErrorCode.QUEUE_IN_USE
    app.put("Q@X", b"1")
    assert app.bodies("@A") == [b"1"]
    assert app.code_of(m.QueueCreate, "Q@Y") is ErrorCode.LINK_UNKNOWN


def test_what_passes_through_waits_where_its_link_is_inhibited(app: Client) -> None:
    app.ask(m.LinkCreate, "SFO", {"addresses": ["h:1"], "transit": True, "stopped": True})
    app.ask(m.QueueAlter, "@SFO", {"put_inhibit": True})
    far = Far(app.manager)
    far.open()
    (blocked,) = far.send(1, message(1), queue="Q@SFO")
    assert blocked.code == ErrorCode.PUT_INHIBITED
    app.ask(m.QueueAlter, "@SFO", {"put_inhibit": False})
    far.send(1, message(1), queue="Q@SFO")
    assert far.committed() == [1]
    assert app.bodies("@SFO") == [b"1"]
    far.send(2, message(2), queue="Q@QM1")
    assert app.bodies("Q") == [b"2"]


def test_put_in_a_circle_must_still_be_valid(app: Client) -> None:
    """A message outside the window or without a UID is refused, and is not a dead letter."""
    app.ask(m.LinkCreate, "SFO", {"addresses": ["h:1"], "transit": True, "stopped": True})
    app.manager.fill(DEAD_LETTERS, record(b"before"))
    looped: list[list[Any]] = [[0, {m.EXTRA_NOTE: pack({"hops": ["QM1", "JFK"]})}]]
    far = Far(app.manager)
    far.open()
    (blocked,) = far.client.say(m.Put(far.stream, 1, 0, "Q@SFO", [record(b"x")], looped))
    assert blocked.code == ErrorCode.RECORD_MALFORMED
    far.client.say(m.Put(far.stream, 1_000_000, 0, "Q@SFO", [message(1)], looped))
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.WINDOW_EXCEEDED
    assert app.bodies(DEAD_LETTERS) == [b"before"]
