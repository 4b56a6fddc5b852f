"""Tests of long messages that are sent in pieces."""

import random
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.pieces import PIECE_BYTES
from qmgr_protocol.record import HEADERS
from qmgrd.core.layout import keys
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.returns import returns
from qmgrd.core.sessions import settlements
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Delivery, Manager

SIZE = 2_000_000
BODY = random.Random(2).randbytes(SIZE)


@pytest.fixture
def manager() -> Manager:
    manager = Manager(limits={"message_max_bytes": "4 MiB"})
    manager.connect("admin").ask(m.QueueCreate, "Q")
    return manager


@pytest.fixture
def app(manager: Manager) -> Client:
    return manager.connect("app", piece_bytes=PIECE_BYTES)


def received(messages: list[Any]) -> list[Delivery | int]:
    """Returns the messages with their whole records, and the ids of requests with other answers."""
    data, found = b"", list[Delivery | int]()
    for message in messages:
        if type(message) is m.Piece:
            assert (message.body, message.offset) == (1, len(data) if message.offset else 0)
            data = data[: message.offset] + message.data
        elif type(message) is m.Deliver and message.bodies:
            assert message.bodies == [[0, 1]]
            (item,) = message.items
            head, tail = item[: m.DELIVERY_BYTES], item[m.DELIVERY_BYTES :]
            fields: list[Any] = [*m.DELIVERY.unpack(head), data, tail]
            found.append(Delivery(message.queue_id, *fields))
        elif type(message) is m.Deliver:
            for item in message.items:
                fields = [*m.DELIVERY.unpack_from(item), item[m.DELIVERY_BYTES :]]
                found.append(Delivery(message.queue_id, *fields))
        else:
            found.append(message[0])
    return found


def heard(client: Client) -> list[Delivery | int]:
    client.manager.rest()
    return received(client.hear())


def bodies(found: list[Delivery | int]) -> list[bytes]:
    return [x.body for x in found if isinstance(x, Delivery)]


def test_each_turn_sends_a_piece_and_the_delivery_comes_last(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.put("Q", BODY)
    app.hear()
    app.send(m.Get(1, "Q", 1, 0, 0, 1 << 30))
    app.manager.turn()
    sent, messages = [], []
    while app.manager.turns.has_work:
        app.manager.turn()
        messages += app.received
        sent.append([type(x) for x in app.hear()])
    assert sent[:-1] == [[m.Piece]] * (SIZE // PIECE_BYTES)
    assert sent[-1] == [m.Piece, m.Deliver]
    (found,) = received(messages)
    assert isinstance(found, Delivery)
    assert found.body == BODY
    monkeypatch.setattr("qmgrd.core.jobs.jobs.SLICE_ROWS", 100)
    app.send(m.Settle(9, m.ACK, found.queue_id, found.handle))
    app.manager.turn()
    assert len(app.manager.scan(keys.SPACE_UNOWNED)) == 1
    assert len(app.manager.scan(keys.SPACE_BODY)) == -(-len(found.record) // 4_000) - 100
    audit(app.manager)
    app.manager.rest()
    assert app.manager.scan(keys.SPACE_BODY) == app.manager.scan(keys.SPACE_UNOWNED) == []


def test_other_messages_of_the_connection_pass_and_those_of_the_consumer_wait(
    manager: Manager, app: Client
) -> None:
    app.ask(m.QueueCreate, "OTHER")
    app.put("Q", b"1", BODY, b"3")
    app.hear()
    app.send(m.Consume(50, "Q", 10, 1 << 30), m.Consume(51, "OTHER", 10, 1 << 30))
    manager.turn()
    manager.turn()
    app.put("OTHER", b"quick")
    manager.rest()
    order = [
        x.request_id if type(x) is m.Deliver else "piece"
        for x in app.received
        if type(x) in (m.Deliver, m.Piece)
    ]
    assert [x for x in order if x == 50] == [50, 50, 50]
    assert order.index(51) < len(order) - 3
    assert set(order[order.index(51) : -2]) == {51, "piece"}
    found = received([x for x in app.hear() if type(x) in (m.Deliver, m.Piece)])
    by_queue = [x.body for x in found if isinstance(x, Delivery) and x.body != b"quick"]
    assert by_queue == [b"1", BODY, b"3"]
    audit(manager)


def test_message_up_to_the_size_of_a_frame_is_sent_whole(app: Client) -> None:
    app.put("Q", bytes(DELIVER_MAX_BYTES - 100))
    (found,) = app.get("Q")
    assert len(found.body) == DELIVER_MAX_BYTES - 100


def test_client_without_pieces_receives_the_whole_record(manager: Manager) -> None:
    plain = manager.connect("plain")
    plain.put("Q", BODY)
    assert [x.body for x in plain.get("Q")] == [BODY]


@pytest.mark.parametrize(
    "request_",
    [
        m.Get(70, "Q", 1, 0, 0, 1 << 30, where="a = 1"),
        m.Get(70, "Q", 1, 0, 0, 1 << 30, correlation_id=b"c"),
        m.Get(70, "Q", 1, 0, 0, 1 << 30, order=m.LOGICAL),
        m.Get(70, "Q", 5, 0, 0, 1 << 30),
    ],
)
def test_each_way_to_get_sends_pieces(app: Client, request_: m.Get) -> None:
    app.put("Q", BODY, envelope={HEADERS: {"a": 1}}, correlation_id=b"c")
    app.hear()
    app.send(request_)
    (found,) = heard(app)
    assert isinstance(found, Delivery)
    assert found.body == BODY
    audit(app.manager)


def test_member_of_a_group_is_sent_in_pieces(app: Client) -> None:
    group = app.ask(m.GroupNew)
    app.put("Q", BODY, group=(group, 1, False))
    app.put("Q", b"2", group=(group, 2, True))
    app.hear()
    app.send(m.Consume(50, "Q", 10, 1 << 30, order=m.PINNED))
    assert bodies(heard(app)) == [BODY, b"2"]
    audit(app.manager)


def test_lease_does_not_end_while_pieces_are_sent(manager: Manager, app: Client) -> None:
    app.put("Q", BODY)
    app.hear()
    app.send(m.Get(70, "Q", 1, 0, 100, 1 << 30))
    manager.turn()
    while manager.turns.has_work:
        manager.turn(90)
    (found,) = received(app.hear())
    assert isinstance(found, Delivery)
    assert (found.delivered, found.failed) == (0, 0)
    manager.turn(90)
    assert app.ack(found) == []


def test_lease_does_not_end_while_the_peer_does_not_read(manager: Manager, app: Client) -> None:
    app.put("Q", BODY)
    app.hear()
    app.send(m.Get(70, "Q", 1, 0, 100, 1 << 30))
    manager.turn()
    manager.turns.intake.block(app.peer.number)
    manager.turn(5_000)
    manager.turns.intake.unblock(app.peer.number)
    (found,) = heard(app)
    assert isinstance(found, Delivery)
    assert app.ack(found) == []


@pytest.mark.parametrize("is_damaged", [False, True])
def test_long_message_is_alone_in_its_delivery(
    manager: Manager, app: Client, is_damaged: bool
) -> None:
    other = manager.connect("other")
    app.put("Q", b"a")
    other.get("Q")
    app.put("Q", b"b")
    app.put("Q", BODY, priority=9)
    app.hear()
    if is_damaged:
        key, row = manager.scan(keys.SPACE_BODY)[300]
        tx = manager.store.begin()
        tx.put(key, row[:-1])
        manager.store.commit()
    app.send(m.Consume(50, "Q", 10, 1 << 30))
    assert bodies(heard(app)) == ([b"b"] if is_damaged else [BODY, b"b"])


def test_reader_continues_the_group_of_a_long_member(app: Client) -> None:
    group = app.ask(m.GroupNew)
    app.put("Q", BODY, group=(group, 1, False))
    app.put("Q", b"x")
    app.put("Q", b"2", group=(group, 2, True))
    app.hear()
    app.send(m.Get(70, "Q", 1, 0, 0, 1 << 30, reader=5))
    assert bodies(heard(app)) == [BODY]
    app.send(m.Get(71, "Q", 1, 0, 0, 1 << 30, reader=5, order=m.LOGICAL))
    assert bodies(heard(app)) == [b"2"]


def test_member_that_was_taken_back_meanwhile_is_not_delivered(
    manager: Manager, app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The returns take several turns, in which further pieces would be sent."""
    monkeypatch.setattr(returns, "RETURNS_PER_TURN", 1)
    monkeypatch.setattr(settlements, "RETURNS_PER_TURN", 1)
    group = app.ask(m.GroupNew)
    app.put("Q", b"1", group=(group, 1, False))
    app.put("Q", b"2", group=(group, 2, False))
    app.put("Q", BODY, group=(group, 3, True))
    app.hear()
    app.send(m.Consume(50, "Q", 10, 1 << 30, order=m.PINNED))
    manager.turn()
    manager.turn()
    first, second = received([x for x in app.hear() if type(x) is m.Deliver])
    assert isinstance(first, Delivery)
    assert isinstance(second, Delivery)
    app.send(m.Settle(9, m.RETURN, first.queue_id, first.handle))
    manager.rest()
    messages = [x for x in app.hear() if type(x) in (m.Piece, m.Deliver)]
    assert bodies(received(messages)) == [b"1", b"2", BODY]
    audit(manager)


def test_user_who_lost_the_right_meanwhile_does_not_get_the_message(manager: Manager) -> None:
    guarded = Guarded(manager)
    bob = guarded.user("bob", "get queue Q")
    manager.rest()
    manager.turns.broker.sessions[bob.peer.number].piece_bytes = PIECE_BYTES
    guarded.owner.put("Q", BODY)
    bob.hear()
    bob.send(m.Get(70, "Q", 1, 0, 0, 1 << 30))
    manager.turn()
    manager.turn()
    guarded.revoke("bob", "get queue Q")
    manager.rest()
    assert not [x for x in bob.hear() if type(x) is m.Deliver]
    assert not manager.queue("Q").leases


def test_credit_during_the_pieces_leaves_the_reader_its_groups(app: Client) -> None:
    group = app.ask(m.GroupNew)
    app.put("Q", BODY, group=(group, 1, True))
    app.hear()
    app.send(m.Consume(50, "Q", 10, 1 << 30, order=m.PINNED))
    app.manager.turn()
    app.send(m.Credit(50, 1, 1))
    app.manager.turn()
    (session,) = [x for x in app.manager.turns.broker.sessions.values() if x.consumers]
    reader = session.consumers[50].reader
    assert reader is not None
    assert reader.has_credit
    assert bodies(heard(app)) == [BODY]


def test_deleted_queue_ends_the_message_and_answers_the_get(manager: Manager, app: Client) -> None:
    app.put("Q", BODY)
    app.hear()
    app.send(m.Get(70, "Q", 1, 0, 0, 1 << 30))
    manager.turn()
    manager.turn()
    manager.connect("admin").ask(m.QueueDelete, "Q", True)
    manager.rest()
    messages = app.hear()
    assert {type(x) for x in messages} == {m.Piece, m.Ok}
    assert messages[-1] == m.Ok(70)
    assert not manager.turns.broker.context.piece_sender._sends


def test_cancelled_consumer_returns_the_message(manager: Manager, app: Client) -> None:
    app.put("Q", BODY)
    app.hear()
    app.send(m.Consume(70, "Q", 10, 1 << 30))
    manager.turn()
    manager.turn()
    app.send(m.Cancel(70))
    manager.rest()
    assert type(app.hear()[-1]) is m.Ended
    again = manager.connect("again", piece_bytes=PIECE_BYTES)
    again.send(m.Get(1, "Q", 1, 0, 0, 1 << 30))
    (found,) = heard(again)
    assert isinstance(found, Delivery)
    assert (found.body, found.delivered, found.failed) == (BODY, 0, 0)
    audit(manager)


def test_lost_connection_returns_a_message_whose_lessee_was_dropped(
    manager: Manager, app: Client
) -> None:
    app.put("Q", BODY)
    app.hear()
    app.send(m.Get(70, "Q", 1, 0, 60_000, 1 << 30))
    manager.turn()
    session = manager.turns.broker.sessions[app.peer.number]
    session.lessees_max = 0
    session.lessee(manager.queue("Q"), 7)  # Drops the lessees without leases.
    assert len(heard(app)) == 1
    app.hang_up()
    manager.rest()
    assert not manager.queue("Q").leases


def test_lost_connection_returns_the_message(manager: Manager, app: Client) -> None:
    app.put("Q", BODY)
    app.consume("Q")
    manager.turn()
    app.hang_up()
    manager.rest()
    again = manager.connect("again", piece_bytes=PIECE_BYTES)
    again.send(m.Get(1, "Q", 1, 0, 0, 1 << 30))
    assert bodies(heard(again)) == [BODY]
    audit(manager)


@pytest.mark.parametrize("chunk", [0, 300])
def test_damaged_message_is_set_aside_and_the_next_one_follows(
    manager: Manager, app: Client, chunk: int
) -> None:
    app.put("Q", BODY, b"next")
    app.hear()
    key, row = manager.scan(keys.SPACE_BODY)[chunk]
    tx = manager.store.begin()
    tx.put(key, row[:-1] + bytes([row[-1] ^ 1]))
    manager.store.commit()
    app.send(m.Consume(50, "Q", 10, 1 << 30))
    assert bodies(heard(app)) == [b"next"]
    assert manager.queue("Q").counters.damaged == 1
    assert manager.queue("Q").counters.depth == 1


def test_get_of_a_damaged_message_is_answered(manager: Manager, app: Client) -> None:
    app.put("Q", BODY)
    app.hear()
    key, row = manager.scan(keys.SPACE_BODY)[300]
    tx = manager.store.begin()
    tx.put(key, row[:-1])
    manager.store.commit()
    app.send(m.Get(70, "Q", 1, 0, 0, 1 << 30))
    assert heard(app) == [70]
    assert manager.queue("Q").counters.damaged == 1


@pytest.mark.parametrize(("piece_bytes", "shown"), [(PIECE_BYTES, 3), (0, 2)])
def test_browse_cuts_or_omits_what_the_frames_of_the_client_cannot_have(
    manager: Manager, piece_bytes: int, shown: int
) -> None:
    client = manager.connect("app", piece_bytes=piece_bytes)
    client.put("Q", b"1", BODY, b"3")
    session = manager.turns.broker.sessions[client.peer.number]
    session.frame_bytes = 1_200_000
    sizes, cuts = browsed(client)
    assert sizes == ([1, 252_000, 1] if shown == 3 else [1, 1])
    assert cuts == ([[0, 252_000]] if shown == 3 else [])
    session.frame_bytes = 8 << 20
    assert browsed(client) == ([1, SIZE, 1], [])


def browsed(client: Client) -> tuple[list[int], list[list[int]]]:
    """Returns the sizes of the bodies, approximately for a cut one, and the rows of cut ones."""
    sizes: list[int] = []
    cuts: list[list[int]] = []
    after = None
    while True:
        value = client.ask(m.Browse, "Q", after, 9, 1 << 30)
        cut = dict(value.get("cut", []))
        for index, item in enumerate(value["items"]):
            record = item[m.DELIVERY_BYTES :]
            sizes.append(cut.get(index) or len(records.decode(record).body))
        cuts += value.get("cut", [])
        if (after := value["next"]) is None:
            return sizes, cuts


def test_pieces_wait_while_the_peer_does_not_read(manager: Manager, app: Client) -> None:
    app.put("Q", BODY)
    app.hear()
    app.send(m.Get(70, "Q", 1, 0, 0, 1 << 30))
    manager.turn()
    manager.turns.intake.block(app.peer.number)
    manager.rest()
    assert sum(type(x) is m.Piece for x in app.received) <= 1
    manager.turns.intake.unblock(app.peer.number)
    assert bodies(heard(app)) == [BODY]


def test_publication_is_sent_in_pieces_to_each_subscriber(manager: Manager, app: Client) -> None:
    other = manager.connect("other", piece_bytes=PIECE_BYTES)
    names = ["app:s", "other:s"]
    for client, name in zip((app, other), names, strict=True):
        client.ask(m.Subscribe, "T", name)
    publisher = manager.connect("publisher")
    publisher.put("/T", BODY)
    manager.rest()
    for client, name in zip((app, other), names, strict=True):
        client.hear()
        client.send(m.Consume(60, name, 10, 1 << 30))
        assert bodies(heard(client)) == [BODY]
    audit(manager)
