"""The next members of the groups that a consumer has."""

from qmgr_protocol import messages as m
from qmgrd.core.hold import OUT_MAX
from tests.group_player import GroupPlayer, group_id
from tests.qmgrd.core.harness import Client, record


def pinned(player: GroupPlayer, credit: int) -> tuple[Client, int]:
    app = player.app("app")
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", credit, 1 << 30, order=m.PINNED))
    app.answer(request_id)
    return app, request_id


def test_member_that_another_has_in_physical_order_holds_its_group_back() -> None:
    player = GroupPlayer()
    player("put A1 A2 A3 B1")
    other = player.app("other")
    request_id = other.next_id()
    other.send(m.Get(request_id, "Q", group_id=group_id("A"), number=2))
    player.manager.rest()
    (stray,) = other.delivered()
    app, _ = pinned(player, 9)
    assert [x.body for x in app.delivered()] == [b"A1", b"B1"]
    other.ack(stray)
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A3"]


def test_group_that_is_stopped_while_it_stands_in_line_is_not_handed_out() -> None:
    player = GroupPlayer()
    player("put A1 B1 A2 B2 A3")
    app, request_id = pinned(player, 2)
    a1, b1 = app.delivered()
    assert (a1.body, b1.body) == (b"A1", b"B1")
    player("alter A pause")
    app.send(m.Credit(request_id, 9, 0))
    player.manager.rest()
    (b2,) = app.delivered()
    assert b2.body == b"B2"
    player("alter A resume")
    assert app.delivered() == []  # Not before what was out is settled.
    app.ack(a1)
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A2", b"A3"]


def test_frame_is_not_longer_than_it_may_be() -> None:
    player = GroupPlayer()
    app = player.app("app")
    body = bytes(900_000)
    for number in (1, 2, 3):
        app.put("Q", body, group=(group_id("A"), number, number == 3))
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 10, 1 << 30, order=m.LOGICAL))
    app.answer(request_id)
    player.manager.rest()
    frames = [x for x in app.hear() if type(x) is m.Deliver]
    assert [len(frame.items) for frame in frames] == [1, 1, 1]


def test_damaged_member_is_a_gap() -> None:
    player = GroupPlayer()
    player("put A1 A2 A3!")
    store = player.manager.store
    for key, value in player.manager.scan(b"\x10"):
        if b"A2" in value:
            store.rows[key] = value.replace(b"A2", b"AX")
    assert player("get count=3") == "has +A1"
    assert "A gap: 2 there, 1 leased" in player("groups")
    assert player.manager.queue("Q").counters.damaged == 1
    player("ack A1")
    player("alter A skip")
    assert player("get") == "has A3"


def test_credit_of_bytes_bounds_what_is_handed_out() -> None:
    player = GroupPlayer()
    app = player.app("app")
    player("put A1 A2 A3 A4")
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 10, 1, order=m.PINNED))
    app.answer(request_id)
    assert [x.body for x in app.delivered()] == [b"A1"]
    app.send(m.Credit(request_id, 0, 200))
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A2", b"A3"]


def test_so_many_of_a_group_are_in_hand_at_once() -> None:
    """However they are settled, nothing that left is forgotten: the rest comes, each once."""
    player = GroupPlayer()
    app, count = player.app("app"), 3 * OUT_MAX
    batch = [record(b"%d" % n, group=(group_id("A"), n, n == count)) for n in range(1, count + 1)]
    app.put_records("Q", *batch)
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", count, 1 << 30, order=m.PINNED))
    app.answer(request_id)
    got: list[bytes] = []
    player.manager.rest()
    while found := app.delivered():
        assert len(found) <= OUT_MAX
        got += [x.body for x in found]
        app.ack(*reversed(found[::2]))
        app.ack(*reversed(found[1::2]))
        player.manager.rest()
    assert got == [b"%d" % n for n in range(1, count + 1)]
    assert player("groups") == "no groups"
