"""Tests that a guessed, stolen or repeated lease number settles nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.queue.lease_number import BLOCK, COUNT_BITS, LeaseNumbers
from tests.qmgrd.core.harness import SECRET, Client, Delivery, Manager, items, numbers

GUESSES = 1_000_000
A_SETTLE = 10_000  # number of handles in a settle
LOST = [ErrorCode.LEASE_LOST]
LEASE_MS = 1_000
ACTIONS = (m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT, m.RENEW)

arrivals = st.integers(1, 2**63 - 1)
checksums = st.integers(0, 2**32 - 1)


@given(st.integers(1, 2**32 - 1), arrivals, checksums)
def test_number_proves_its_message_to_its_own_session_alone(
    queue_id: int, arrival: int, checksum: int
) -> None:
    own = numbers()
    number = own.next(queue_id, arrival, checksum)
    assert own.proves(number, queue_id, arrival, checksum)
    assert numbers().proves(number, queue_id, arrival, checksum)  # as after a restart
    assert not own.proves(number, queue_id ^ 1, arrival, checksum)
    assert not own.proves(number, queue_id, arrival ^ 1, checksum)
    assert not own.proves(number, queue_id, arrival, checksum ^ 1)
    assert not own.proves(number ^ 1 << COUNT_BITS, queue_id, arrival, checksum)
    assert not own.proves(0, queue_id, arrival, checksum)
    assert not numbers(b"another session").proves(number, queue_id, arrival, checksum)
    stranger = LeaseNumbers(SECRET[::-1], b"one session's id", 1)
    assert not stranger.proves(number, queue_id, arrival, checksum)


def test_leases_of_one_message_by_one_session_have_different_numbers() -> None:
    own = numbers()
    found = [own.next(1, 7, 0) for _ in range(4_095)]
    assert len(set(found)) == 4_095
    assert own.next(1, 7, 0) == found[0]


def test_resumed_session_begins_with_other_counts() -> None:
    of_connections = [LeaseNumbers(SECRET, b"s", connection) for connection in range(1, 4_096)]
    assert len({own.next(1, 7, 0) for own in of_connections}) == 4_095


def test_tags_of_a_block_are_those_of_its_arrivals() -> None:
    own = numbers()
    tags = own.tags(1, BLOCK)
    assert all(own.tags(1, BLOCK + at) == tags for at in range(BLOCK))
    others = *own.tags(1, BLOCK - 1), *own.tags(1, 2 * BLOCK), *own.tags(2, BLOCK)
    assert len({*tags, *others}) == 4 * BLOCK


# -- attacks, over real connections


@pytest.fixture(params=["queue", "subscription", "group"])
def source(request: pytest.FixtureRequest, manager: Manager) -> tuple[str, Client]:
    """Returns the name of a queue or subscription with 300 messages, and its client."""
    app = manager.connect("victim")
    app.ask(m.QueueCreate, "Q")
    if request.param == "subscription":
        app.ask(m.Subscribe, "t", ":s")
        app.put("/t", *[b"x"] * 300)
        manager.rest()
        return ":s", app
    if request.param == "group":
        for number in range(1, 301):
            app.put("Q", b"x", group=(b"g" * 24, number, number == 300))
        return "Q", app
    app.put("Q", *[b"x"] * 300)
    return "Q", app


def take(app: Client, name: str, count: int, lease_ms: int = LEASE_MS) -> list[Delivery]:
    """Gets messages in logical order, up to the limit of one get."""
    request_id = app.next_id()
    app.send(m.Get(request_id, name, count, 0, lease_ms, 1 << 30, order=m.LOGICAL, reader=1))
    (answer,) = app.say()
    return items(answer) if type(answer) is m.Deliver else []


def at_once(name: str, app: Client) -> int:
    """Returns how many messages can be acknowledged late: in a group, only the first one."""
    return 1 if app.show(name)["grouped"] else 100


def guesses(near: list[Delivery], browsed: list[Delivery], count: int) -> Iterator[bytes]:
    """Yields guessed handles for browsed messages, with numbers close to the guesser's own."""
    own = {found.arrival: found.number for found in near}
    spans = [own[at] - own[at - 1] for at in own if at - 1 in own] or [1]
    found = 0
    while True:
        for victim in browsed:
            for known in near:
                for number in (
                    known.number + found,
                    known.number - found,
                    known.number ^ found << COUNT_BITS,
                    known.number + spans[found % len(spans)] * (victim.arrival - known.arrival),
                ):
                    yield m.HANDLE.pack(victim.priority, victim.arrival, number % 2**64)
                    found += 1
                    if found >= count:
                        return


def settle(app: Client, queue_id: int, action: int, handles: list[bytes]) -> list[int]:
    """Settles the handles; returns the code for each one."""
    settle_id = app.next_id()
    app.send(m.Settle(settle_id, action, queue_id, b"".join(handles)))
    answer = app._wait(lambda x: type(x) is m.Settled and x.settle_id >= settle_id)
    codes = [0] * len(handles)
    for _, index, code in answer.exceptions:
        codes[index] = code
    return codes


def state(app: Client, name: str) -> Any:
    """Returns the contents and counters of a queue."""
    kind = m.QueueShow
    row = app.ask(kind, name)
    return {key: row[key] for key in ("depth", "leased", "acked", "returned", "ready")}


@pytest.mark.long
def test_no_guess_settles_anything(manager: Manager, source: tuple[str, Client]) -> None:
    """Each message has no lease, another client's lease, or a lease that another client had."""
    name, victim = source
    held = take(victim, name, 100, lease_ms=60_000)
    thief = manager.connect("thief")
    thief.ask(m.QueueCreate, "T")
    thief.put("T", *[b"t"] * 20)
    own = thief.get("T", 20)
    browsed = thief.browse(name)
    assert {found.number for found in browsed} == {0}
    before = state(victim, name)
    left = GUESSES // 3 // 2
    for _ in range(2):
        batch: list[bytes] = []
        for handle in guesses(own, browsed, left):
            batch.append(handle)
            if len(batch) == A_SETTLE:
                assert set(settle(thief, held[0].queue_id, m.ACK, batch)) == set(LOST)
                batch = []
        assert state(victim, name) == before
        victim.manager.turn()
    assert victim.ack(*held) == []
    assert state(victim, name)["acked"] == 100


@pytest.mark.parametrize("action", ACTIONS)
def test_handles_of_another_session_are_useless(
    manager: Manager, source: tuple[str, Client], action: int
) -> None:
    """The other session holds the messages, has lost them, or has ended."""
    name, victim = source
    held = take(victim, name, 100)
    handles, queue_id = [found.handle for found in held], held[0].queue_id
    thief = manager.connect("thief")
    before = state(victim, name)
    assert set(settle(thief, queue_id, action, handles)) == set(LOST)
    assert state(victim, name) == before
    manager.turn(LEASE_MS + 1)
    manager.rest()
    before = state(thief, name)
    assert before["leased"] == 0
    is_free = action in (m.RELEASE, m.RETURN, m.UNREAD)  # None of these actions may have an effect.
    assert set(settle(thief, queue_id, action, handles)) == ({0} if is_free else set(LOST))
    victim.hang_up()
    manager.rest()
    assert set(settle(thief, queue_id, action, handles)) == ({0} if is_free else set(LOST))
    assert state(thief, name) == before


def test_browsed_handles_settle_nothing(manager: Manager, source: tuple[str, Client]) -> None:
    name, app = source
    (held,) = take(app, name, 1)
    before = state(app, name)
    browsed = [found.handle for found in app.browse(name)]
    for action in (m.ACK, m.REJECT, m.RENEW):
        assert set(settle(app, held.queue_id, action, browsed)) == set(LOST)
    assert state(app, name) == before


def test_own_handle_is_useless_once_another_session_has_the_message(
    manager: Manager, source: tuple[str, Client]
) -> None:
    name, first = source
    held = take(first, name, 100)
    manager.turn(LEASE_MS + 1)
    first.ask(m.ReaderClose, 1)
    second = manager.connect("second")
    again = take(second, name, 100)
    assert [found.arrival for found in again] == [found.arrival for found in held]
    before = state(first, name)
    for action in ACTIONS:
        codes = settle(first, held[0].queue_id, action, [found.handle for found in held])
        assert set(codes) == set(LOST)
    assert state(first, name) == before
    assert second.ack(*again) == []


def lose_the_lease(app: Client) -> None:
    app.manager.turn(LEASE_MS + 1)


def lose_the_connection(app: Client) -> None:
    app.hang_up()


def crash(app: Client) -> None:
    app.manager.crash()


def restart(app: Client) -> None:
    app.manager.restart()


@pytest.mark.parametrize("end", [lose_the_lease, lose_the_connection, crash, restart])
@pytest.mark.parametrize("resumes", [True, False])
def test_late_ack_works_in_the_session_that_had_the_message(
    manager: Manager, source: tuple[str, Client], end: Any, resumes: bool
) -> None:
    name, app = source
    count = at_once(name, app)
    held = take(app, name, count)
    end(app)
    manager.rest()
    again = manager.connect("victim", session=app.session if resumes else b"")
    codes = settle(again, held[0].queue_id, m.ACK, [found.handle for found in held])
    assert set(codes) == ({0} if resumes else set(LOST))
    assert state(again, name)["depth"] == (300 - count if resumes else 300)
    app.hang_up()  # The reader of this connection may hold the group.
    manager.rest()
    while found := take(again, name, 300):
        assert again.ack(*found) == []
    assert state(again, name)["depth"] == 0
    # The handles are settled again after all messages were removed.
    assert set(settle(again, held[0].queue_id, m.ACK, [x.handle for x in held])) == {0}


def test_handle_from_before_a_restore_settles_no_other_message(manager: Manager) -> None:
    """Arrivals and boot numbers continue from those in the restored store."""
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    before = dict(manager.store.rows)
    app.put("Q", b"old")
    (old,) = app.get("Q")
    manager.store.rows.clear()
    manager.store.rows.update(before)
    manager.crash(away_ms=1_000)
    app = manager.connect(session=app.session)
    app.put("Q", b"new")
    assert app.ack(old) == LOST
    (new,) = app.get("Q")
    assert (new.arrival, new.body) == (old.arrival, b"new")
    assert app.ack(old) == LOST
    assert app.ack(new) == []


def test_handle_from_before_a_restore_settles_its_own_message(manager: Manager) -> None:
    """The handle is valid in its own session, because the restored store has the same secret."""
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"x")
    before = dict(manager.store.rows)
    (held,) = app.get("Q")
    assert app.ack(held) == []
    manager.store.rows.clear()
    manager.store.rows.update(before)
    manager.crash(away_ms=1_000)
    assert manager.connect().ack(held) == LOST
    assert manager.connect(session=app.session).ack(held) == []


def test_session_has_one_connection(manager: Manager, source: tuple[str, Client]) -> None:
    """The newer connection wins. Messages of the older one return, and its requests fail."""
    name, older = source
    count = at_once(name, older)
    held = take(older, name, count + 1)
    newer = manager.connect("victim", session=older.session)
    assert newer.session == older.session
    older.send(m.Settle(900, m.RELEASE, held[0].queue_id, held[0].handle))
    assert newer.ack(held[0]) == []
    assert older.goaway is not None
    assert older.goaway.code == ErrorCode.SESSION_FENCED
    manager.rest()
    assert state(newer, name) == {
        "depth": 299,
        "leased": 0,
        "acked": 1,
        "returned": count,
        "ready": 299,
    }
    assert newer.ack(*held[1:]) == []
    third = manager.connect("victim", session=newer.session)
    assert take(third, name, 1)
    assert newer.goaway is not None


def test_newer_connection_gets_the_session_in_any_order_of_a_turn(manager: Manager) -> None:
    first = manager.connect()
    first.hang_up()
    manager.rest()
    older, newer = (manager.connect(session=first.session) for _ in range(2))
    broker = manager.turns.broker
    for number, arrival in reversed(list(manager.turns.intake.take(10, 1 << 20))):
        assert arrival.event is not None
        manager.turns.intake.event(number, arrival.event)
    manager.turn()
    assert set(broker.sessions) == {newer.peer.number}
    assert (older.goaway is not None, newer.goaway) == (True, None)
    assert newer.ask(m.QueueCreate, "Q") is not None


def test_only_its_own_session_settles_a_unit_of_work(manager: Manager) -> None:
    app, thief = manager.connect("app"), manager.connect("thief")
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"x")
    (held,) = app.get("Q")
    for client in (app, thief):
        client.ask(m.UnitBegin, 1)
    settle_id = thief.next_id()
    (answer,) = thief.say(m.Settle(settle_id, m.ACK, held.queue_id, held.handle, 1))
    assert answer == m.Settled(settle_id, [[settle_id, 0, ErrorCode.LEASE_LOST]])
    settle_id = app.next_id()
    (answer,) = app.say(m.Settle(settle_id, m.ACK, held.queue_id, held.handle, 1))
    assert answer == m.Settled(settle_id)
    for client in (app, thief):
        assert set(settle(client, held.queue_id, m.ACK, [held.handle])) == set(LOST)
