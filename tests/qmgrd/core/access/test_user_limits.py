"""Limits of one user: what they refuse, and what they leave alone."""

from collections.abc import Callable
from typing import Any

import pytest

from qmgr_config.user_defaults import UserDefaults
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import USER_LIMITS
from qmgrd.core.access.user_limits import UserLimits, in_force
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.guarded import VERIFIER, Guarded
from tests.qmgrd.core.harness import Client, Manager, record

GRANTS = (
    "put queue *",
    "get queue *",
    "create queue *",
    "delete queue *",
    "subscribe topic #",
    "publish topic #",
    "create subscription *",
    "get subscription *",
)
HOUR_MS = 3_600_000


@pytest.fixture
def guarded(manager: Manager) -> Guarded:
    found = Guarded(manager)
    found.owner.ask(m.QueueCreate, "Q")
    return found


def limit(guarded: Guarded, user: str, **limits: int | None) -> None:
    guarded.owner.ask(m.UserAlter, user, limits)


def use_of(guarded: Guarded, user: str) -> dict[str, int]:
    use: dict[str, int] = guarded.owner.ask(m.UserShow, user)["use"]
    return use


def open_consumer(app: Client, number: int) -> None:
    del number
    app.consume("Q")


def wait_for_a_message(app: Client, number: int) -> None:
    """Sends a get. A refused get raises its error; an accepted one waits."""
    del number
    request_id = app.next_id()
    for answer in app.say(m.Get(request_id, "Q", 1, HOUR_MS, 0, 1 << 20)):
        if type(answer) is m.Error and answer.request_id == request_id:
            raise RequestError(ErrorCode(answer.code), answer.text, answer.retry_after_ms)


def open_producer(app: Client, number: int) -> None:
    app.ask(m.ProducerOpen, b"%-8s%08d" % (app.manager.turns.broker.context.name.encode(), number))


def create_queue(app: Client, number: int) -> None:
    app.ask(m.QueueCreate, f"OWN.{number}")


def subscribe(app: Client, number: int) -> None:
    app.ask(m.Subscribe, f"a/{number}", f"{app.peer.peer_name}:{number}", "", {}, False)


USES: list[tuple[str, Callable[[Client, int], None], ErrorCode, str]] = [
    ("consumers_max", open_consumer, ErrorCode.USER_CONSUMERS_EXHAUSTED, "3 open consumers"),
    ("consumers_max", wait_for_a_message, ErrorCode.USER_CONSUMERS_EXHAUSTED, "3 open consumers"),
    ("streams_max", open_producer, ErrorCode.USER_STREAMS_EXHAUSTED, "3 open streams"),
    ("producers_max", open_producer, ErrorCode.USER_PRODUCERS_EXHAUSTED, "3 remembered producers"),
    ("queues_max", create_queue, ErrorCode.USER_QUEUES_EXHAUSTED, "3 queues"),
    ("subscriptions_max", subscribe, ErrorCode.USER_SUBSCRIPTIONS_EXHAUSTED, "3 subscriptions"),
]
IDS = [f"{name}-{use.__name__}" for name, use, _, _ in USES]


@pytest.mark.parametrize(("name", "use", "code", "words"), USES, ids=IDS)
def test_limit_refuses_the_next_use_of_the_user_on_any_connection(
    guarded: Guarded, name: str, use: Any, code: ErrorCode, words: str
) -> None:
    bob, eve = guarded.user("bob", *GRANTS), guarded.user("eve", *GRANTS)
    again = guarded.manager.connect("bob", user="bob")
    limit(guarded, "bob", **{name: 3})
    for number in (1, 2):
        use(bob, number)
    use(again, 3)
    for app in (bob, again):
        with pytest.raises(
            RequestError, match=f"user bob has {words}, and its limit is 3"
        ) as error:
            use(app, 4)
        assert error.value.code == code
        assert f"({name})" in error.value.text
    for number in range(11, 16):
        use(eve, number)  # The limits of a user concern no other user.
    assert use_of(guarded, "bob")[name.removesuffix("_max")] == 3
    limit(guarded, "bob", **{name: 0})
    use(bob, 5)


@pytest.mark.parametrize(("name", "use", "code", "words"), USES, ids=IDS)
def test_lower_limit_ends_nothing_and_refuses_further_uses(
    guarded: Guarded, name: str, use: Any, code: ErrorCode, words: str
) -> None:
    bob = guarded.user("bob", *GRANTS)
    for number in (1, 2, 3):
        use(bob, number)
    limit(guarded, "bob", **{name: 1})
    assert bob.goaway is None
    assert use_of(guarded, "bob")[name.removesuffix("_max")] == 3
    with pytest.raises(RequestError, match=f"user bob has {words}, and its limit is 1"):
        use(bob, 4)


def test_consumers_that_end_make_room(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    limit(guarded, "bob", consumers_max=1)
    number = bob.consume("Q")
    with pytest.raises(RequestError):
        bob.consume("Q")
    bob.say(m.Cancel(number))
    bob.consume("Q")
    bob.hang_up()
    guarded.manager.turn()
    guarded.manager.connect("bob", user="bob").consume("Q")


def test_streams_of_a_lost_connection_do_not_count(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    limit(guarded, "bob", streams_max=1)
    open_producer(bob, 1)
    again = guarded.manager.connect("bob", user="bob")
    open_producer(again, 1)  # The same producer moves to the newer connection.
    guarded.manager.turn()
    assert bob.goaway is not None
    with pytest.raises(RequestError):
        open_producer(again, 2)
    again.hang_up()
    guarded.manager.turn()
    open_producer(guarded.manager.connect("bob", user="bob"), 2)


def test_streams_of_a_link_count_and_move_to_a_newer_connection(guarded: Guarded) -> None:
    guarded.user("FAR", roles=("peer",)).hang_up()
    limit(guarded, "FAR", streams_max=1)
    far = Far(guarded.manager, user="FAR")
    far.open(life=b"L" * 16)
    assert use_of(guarded, "FAR")["streams"] == 1
    with pytest.raises(RequestError, match="user FAR has 1 open stream, and its limit is 1"):
        far.open(life=b"L" * 16, path=1)
    again = Far(guarded.manager, user="FAR")
    again.open(life=b"L" * 16)
    assert use_of(guarded, "FAR")["streams"] == 1


def test_rate_delays_the_stream_of_a_link_and_does_not_break_it(guarded: Guarded) -> None:
    manager = guarded.manager
    guarded.user("FAR", roles=("peer",)).hang_up()
    limit(guarded, "FAR", puts_per_s_max=2)
    far = Far(manager, user="FAR")
    far.open()
    for seq_id in (1, 2, 3, 4):
        far.client.send(m.Put(far.stream, seq_id, 0, "Q", [message(seq_id)]))
    commit_ids = far.committed()
    assert len(guarded.owner.bodies("Q")) == 2
    for _ in range(4):
        manager.turn(500)
        commit_ids += far.committed()
    assert commit_ids[-1] == 4
    assert far.client.goaway is None
    assert guarded.owner.bodies("Q") == [b"1", b"2", b"3", b"4"]


def test_connection_above_the_limit_is_closed_with_the_reason(guarded: Guarded) -> None:
    manager, first = guarded.manager, guarded.user("bob")
    limit(guarded, "bob", connections_max=2)
    second, third = (manager.connect("bob", user="bob") for _ in range(2))
    manager.turn()
    assert (first.goaway, second.goaway) == (None, None)
    assert third.goaway is not None
    assert third.goaway.code == ErrorCode.USER_CONNECTIONS_EXHAUSTED
    assert third.goaway.text.startswith("user bob has 2 open connections, and its limit is 2")
    assert use_of(guarded, "bob")["connections"] == 2
    second.hang_up()
    manager.turn()
    fourth = manager.connect("bob", user="bob")
    manager.turn()
    assert fourth.goaway is None
    limit(guarded, "bob", connections_max=1)
    manager.turn()
    assert (first.goaway, fourth.goaway) == (None, None)


def test_resumed_session_replaces_its_older_connection(guarded: Guarded) -> None:
    manager, first = guarded.manager, guarded.user("bob")
    limit(guarded, "bob", connections_max=1)
    again = manager.connect("bob", user="bob", session=first.session)
    manager.turn()
    assert first.goaway is not None
    assert again.goaway is None


def test_user_that_is_created_again_begins_without_use(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    bob.consume("Q")
    guarded.owner.ask(m.UserDelete, "bob")
    guarded.owner.ask(m.UserCreate, "bob", {"verifier": VERIFIER, "connections_max": 1})
    again = guarded.manager.connect("bob", user="bob")
    guarded.manager.turn()
    assert again.goaway is None
    assert use_of(guarded, "bob")["connections"] == 1
    assert use_of(guarded, "bob")["consumers"] == 0


def test_default_of_the_configuration_is_in_force_without_a_limit_of_the_user() -> None:
    guarded = Guarded(Manager(user_defaults={"queues_max": 1}))
    bob = guarded.user("bob", *GRANTS)
    create_queue(bob, 1)
    assert bob.code_of(m.QueueCreate, "OWN.2") == ErrorCode.USER_QUEUES_EXHAUSTED
    limit(guarded, "bob", queues_max=2)
    create_queue(bob, 2)
    assert bob.code_of(m.QueueCreate, "OWN.3") == ErrorCode.USER_QUEUES_EXHAUSTED
    limit(guarded, "bob", queues_max=0)
    create_queue(bob, 3)
    row = guarded.owner.ask(m.UserShow, "bob")
    assert (row["limits"]["queues_max"], row["given"]) == (0, ["queues_max"])
    limit(guarded, "bob", queues_max=None)
    assert bob.code_of(m.QueueCreate, "OWN.4") == ErrorCode.USER_QUEUES_EXHAUSTED
    row = guarded.owner.ask(m.UserShow, "bob")
    assert (row["limits"]["queues_max"], row["given"]) == (1, [])


def test_queue_that_exists_already_is_not_a_use(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    limit(guarded, "bob", queues_max=1)
    create_queue(bob, 1)
    create_queue(bob, 1)
    guarded.owner.ask(m.QueueCreate, "OTHER")
    bob.ask(m.QueueCreate, "OTHER")
    bob.ask(m.QueueDelete, "OWN.1", False)
    create_queue(bob, 2)


def test_owner_survives_a_restart_and_changes_of_the_queue(guarded: Guarded) -> None:
    manager, bob = guarded.manager, guarded.user("bob", *GRANTS)
    create_queue(bob, 1)
    bob.put("OWN.1", b"12345")
    guarded.owner.ask(m.QueueAlter, "OWN.1", {"depth_max": 5})
    before = use_of(guarded, "bob")
    assert before["queues"] == 1
    assert before["stored_bytes"] > 5
    manager.crash()
    guarded.owner = manager.connect("owner")
    after = use_of(guarded, "bob")
    assert after == before | {"connections": 0, "streams": 0}
    assert after["producers"] == 1


@pytest.mark.parametrize("name", USER_LIMITS)
def test_limit_has_a_range(guarded: Guarded, name: str) -> None:
    guarded.user("bob")
    high = USER_LIMITS[name].high
    for value in (-1, high + 1, True, "5", 1.5):
        with pytest.raises(RequestError, match=f"{name} of user bob") as error:
            limit(guarded, "bob", **{name: value})  # type: ignore[arg-type]
        assert error.value.code == ErrorCode.VALUE_INVALID
    for value in (high, 1, 0):
        limit(guarded, "bob", **{name: value})
        assert guarded.owner.ask(m.UserShow, "bob")["limits"][name] == value


def test_limits_agree_in_the_protocol_and_in_the_configuration() -> None:
    assert list(UserLimits._fields) == list(USER_LIMITS) == list(UserDefaults.model_fields)
    assert in_force(UserDefaults(), {}) == UserLimits(producers_max=10_000)


# -- stored bytes


def test_put_that_exceeds_the_bytes_of_the_owner_is_refused(guarded: Guarded) -> None:
    bob, eve = guarded.user("bob", *GRANTS), guarded.user("eve", *GRANTS)
    for number in (1, 2):
        create_queue(bob, number)
    bob.put("OWN.1", bytes(1_000))
    one = use_of(guarded, "bob")["stored_bytes"]
    limit(guarded, "bob", stored_bytes_max=3 * one)
    eve.put("OWN.2", bytes(1_000))  # The bytes count for the owner, not for the producer.
    assert use_of(guarded, "bob")["stored_bytes"] == 2 * one
    refused = eve.put_records("OWN.1", *[record(bytes(1_000))] * 3)
    assert [x.code for x in refused] == [ErrorCode.USER_BYTES_EXHAUSTED] * 2
    assert f"user bob has {3 * one} bytes on the queues that it created" in refused[0].text
    assert f"its limit of {3 * one} (stored_bytes_max)" in refused[0].text
    assert use_of(guarded, "bob")["stored_bytes"] == 3 * one
    eve.put("Q", *[bytes(1_000)] * 5)
    bob.ack(*bob.get("OWN.2"))
    eve.put("OWN.1", bytes(1_000))


def test_puts_on_several_queues_in_one_turn_count_together(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    for number in (1, 2, 3):
        create_queue(bob, number)
    bob.put("OWN.1", bytes(1_000))
    one = use_of(guarded, "bob")["stored_bytes"]
    limit(guarded, "bob", stored_bytes_max=3 * one)
    producer = bob.producer(b"several queues 1")
    for seq_id, queue in enumerate(["OWN.2", "OWN.3", "OWN.1", "OWN.2"], producer.next_id):
        bob.send(m.Put(producer.stream, seq_id, 0, queue, [record(bytes(1_000))]))
    refused = producer.answer()
    assert [x.seq_id - producer.next_id for x in refused] == [2, 3]
    assert use_of(guarded, "bob")["stored_bytes"] == 3 * one


def test_deleted_queue_frees_its_bytes(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    create_queue(bob, 1)
    bob.put("OWN.1", bytes(1_000))
    guarded.owner.ask(m.QueueDelete, "OWN.1", True)
    assert use_of(guarded, "bob")["stored_bytes"] == 0


def test_queue_that_discards_makes_room_within_the_bytes_of_its_owner(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    bob.ask(m.QueueCreate, "OWN.1", {"overflow": "discard-oldest"})
    create_queue(bob, 2)
    bob.put("OWN.2", bytes(1_000))
    one = use_of(guarded, "bob")["stored_bytes"]
    limit(guarded, "bob", stored_bytes_max=3 * one)
    bob.put("OWN.1", *[bytes(1_000)] * 5)
    assert len(guarded.owner.bodies("OWN.1")) == 2
    assert use_of(guarded, "bob")["stored_bytes"] == 3 * one
    refused = bob.put_records("OWN.1", record(bytes(10_000)))
    assert [x.code for x in refused] == [ErrorCode.USER_BYTES_EXHAUSTED]
    assert len(guarded.owner.bodies("OWN.1")) == 2, "a put that never fits evicts nothing"


def test_unit_of_work_counts_before_its_commit(guarded: Guarded) -> None:
    bob = guarded.user("bob", *GRANTS)
    create_queue(bob, 1)
    bob.put("OWN.1", bytes(1_000))
    one = use_of(guarded, "bob")["stored_bytes"]
    limit(guarded, "bob", stored_bytes_max=2 * one)
    bob.ask(m.UnitBegin, 1)
    (refused, _) = bob.ask(m.UnitPut, 1, "OWN.1", [record(bytes(1_000))] * 2)
    assert [code for _, code, _ in refused] == [ErrorCode.USER_BYTES_EXHAUSTED]
    assert [x.code for x in bob.put_records("OWN.1", record(b""))] == [
        ErrorCode.USER_BYTES_EXHAUSTED
    ]
    bob.ask(m.UnitBackout, 1)
    bob.put("OWN.1", bytes(1_000))


def test_subscription_of_a_full_user_misses_publications(guarded: Guarded) -> None:
    bob, eve = guarded.user("bob", *GRANTS), guarded.user("eve", *GRANTS)
    for app in (bob, eve):
        app.ask(m.Subscribe, "news", f"{app.peer.peer_name}:S", "", {}, False)
    bob.put("/news", bytes(1_000))
    guarded.manager.rest()
    one = use_of(guarded, "bob")["stored_bytes"]
    assert one > 1_000
    limit(guarded, "bob", stored_bytes_max=2 * one)
    eve.put("/news", *[bytes(1_000)] * 4)
    guarded.manager.rest()
    assert use_of(guarded, "bob")["stored_bytes"] == 2 * one
    assert use_of(guarded, "eve")["stored_bytes"] == 5 * one
