"""Tests of the start and the end of subscriptions."""

from collections.abc import Iterator
from itertools import product

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import encode_uid
from qmgrd.core.selector import selector
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import AnyStore, Client
from tests.qmgrd.core.pubsub import Hub

DAY_MS = 24 * 3_600_000


@pytest.fixture
def hub(store: AnyStore) -> Iterator[Hub]:
    hub = Hub(store)
    yield hub
    hub.sound()
    audit(hub.manager)


def test_names_that_are_given_never_come_again(hub: Hub) -> None:
    """C2, D9: Each connection of a client gets a new name, which is never used again."""
    seen: set[str] = set()
    for stop in (hub.crash, hub.restart, hub.crash):
        for client in (hub.manager.connect("same"), hub.manager.connect("same")):
            names = {hub.subscribe("t", client=client) for _ in range(3)}
            assert not names & seen
            seen |= names
        stop()
    assert len(seen) == 18


def test_durable_name_is_the_same_after_reconnect_and_restart(hub: Hub) -> None:
    """C3: A client that subscribes again continues from its last position."""
    row = hub.app.ask(m.Subscribe, "t", "B:late", "", {"redelivery_limit": 2})
    hub.publish("t", b"1")
    hub.restart()
    assert hub.app.ask(m.Subscribe, "t", "B:late")["queue_id"] == row["queue_id"]
    hub.publish("t", b"2")
    assert hub.take("B:late") == [b"1", b"2"]


def test_other_terms_are_refused(hub: Hub) -> None:
    hub.subscribe("t", "B:late", where="priority > 3", redelivery_limit=2)
    for topic, where, given in (
        ("u", "priority > 3", {}),
        ("t", "", {}),
        ("t", "priority > 3", {"redelivery_limit": 3}),
    ):
        code = hub.app.code_of(m.Subscribe, topic, "B:late", where, given)
        assert code is ErrorCode.SUBSCRIPTION_EXISTS
    with pytest.raises(RequestError, match="exists on topic t where priority > 3, with"):
        hub.app.ask(m.Subscribe, "u", "B:late")


def test_terms_of_a_hidden_subscription_are_not_shown(hub: Hub) -> None:
    guarded = Guarded(hub.manager)
    rights = ("subscribe topic t", "create subscription B:*", "get subscription B:*")
    eve, ann = guarded.user("eve", *rights), guarded.user("ann", *rights)
    ann.ask(m.Subscribe, "t", "B:late", "priority > 3")

    def refusal(user: Client) -> str:
        with pytest.raises(RequestError) as caught:
            user.ask(m.Subscribe, "t", "B:late")
        assert caught.value.code is ErrorCode.SUBSCRIPTION_EXISTS
        return caught.value.text

    assert "priority" not in refusal(eve)
    assert "on topic t where priority > 3" in refusal(ann)
    guarded.grant("eve", "show subscription B:*")
    assert refusal(eve) == refusal(ann)


def test_filters_of_users_leave_room_for_others() -> None:
    hub = Hub(limits={"match_visits_max": 64})
    guarded, codes = Guarded(hub.manager), set[ErrorCode]()
    for name, levels_of in (("eve", "a+"), ("bob", "+a")):
        user = guarded.user(name, "subscribe topic t/#")
        for levels in product(levels_of, repeat=6):
            try:
                user.ask(m.Subscribe, "t/" + "/".join(levels), "")
            except RequestError as error:
                codes.add(error.code)
    assert codes == {ErrorCode.FILTERS_EXHAUSTED}
    ann = guarded.user("ann", "subscribe topic #")
    ann.ask(m.Subscribe, "t/+/b/+/+/b", "")
    ann.ask(m.Subscribe, "u/v/w/x/y/z", "")  # This does not add a node to any topic.
    hub.app.ask(m.Subscribe, "t/+/b/+/+/+/b", "")


def test_refused_subscription_leaves_no_rows(hub: Hub) -> None:
    def code(*fields: object) -> ErrorCode:
        return hub.app.code_of(m.Subscribe, *fields)

    assert code("a//b") is ErrorCode.TOPIC_INVALID
    assert code("t", "no-colon") is ErrorCode.NAME_INVALID
    assert code("t", "A:b@NYC") is ErrorCode.NAME_INVALID
    assert code("t", "A:b", "nonsense (") is ErrorCode.SELECTOR_INVALID
    assert code("t", "A:b", "", {"backout_queue": "Q"}) is ErrorCode.VALUE_INVALID
    assert code("t", "A:b", "", {"overflow": "refuse"}) is ErrorCode.VALUE_INVALID
    assert code("t", ":b@NYC") is ErrorCode.LINK_UNKNOWN
    assert hub.app.ask(m.SubscriptionList)["subscriptions"] == []


COSTLY = f"a LIKE '%{'_' * 200}%'"


def test_costly_selector_is_refused_for_a_new_subscription_only(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # An older daemon had no limit.
        patch.setattr(selector, "SUBSCRIPTION_STEPS_MAX", 1 << 40)
        hub.app.ask(m.Subscribe, "t", "A:old", COSTLY)
    with pytest.raises(RequestError, match="SELECTOR_INVALID: the selector costs up to 1"):
        hub.app.ask(m.Subscribe, "t", "A:new", COSTLY)
    assert hub.app.ask(m.Subscribe, "t", "A:old", COSTLY)["where"] == COSTLY
    hub.manager.crash()
    app = hub.manager.connect()
    assert app.ask(m.Subscribe, "t", "A:old", COSTLY)["where"] == COSTLY
    app.ask(m.QueueCreate, "Q")
    assert app.ask(m.Browse, "Q", None, 100, 1 << 20, COSTLY)["items"] == []


def test_number_of_subscriptions_is_limited() -> None:
    hub = Hub(limits={"subscriptions_max": 2})
    hub.subscribe("t", "A:1")
    hub.subscribe("t")
    assert hub.app.code_of(m.Subscribe, "t", "A:2") is ErrorCode.SUBSCRIPTIONS_EXHAUSTED


def test_filter_that_makes_topics_lead_to_too_many_branches_is_refused() -> None:
    """The restart changes nothing. The filter is accepted once other subscriptions have ended."""
    hub, taken, refused = Hub(limits={"match_visits_max": 64}), list[str](), set[int]()

    def fill() -> None:
        for number, levels in enumerate(product("x+", repeat=6)):
            try:
                hub.app.ask(m.Subscribe, "/".join(levels), f"A:{number}")
            except RequestError as error:
                refused.add(error.code)
            else:
                taken.append(f"A:{number}")

    fill()
    assert 20 < len(taken) < 64
    assert refused == {ErrorCode.FILTERS_EXHAUSTED}
    hub.restart()
    before = len(taken)
    fill()
    assert len(set(taken)) == before
    for name in taken[:before]:
        hub.app.ask(m.Unsubscribe, name)
    hub.app.ask(m.Subscribe, "x/+/x/+/x/+", "B:1")
    assert hub.subscribe("t", "A:1") == "A:1"


def test_end_takes_all_along(hub: Hub) -> None:
    """C23: Ready, delayed, leased and parked messages are deleted."""
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.subscribe("t", "B:b")
    hub.publish("t", b"parked" * 1_000)
    hub.park("A:a")
    hub.publish("t", b"leased")
    assert len(hub.get("A:a")) == 1
    hub.publish("t", b"ready")
    hub.publish("t", b"delayed", delay_ms=60_000, correlation_id=b"c")
    assert hub.app.ask(m.Unsubscribe, "A:a") == {"messages": 4}
    hub.sound()
    assert hub.stored == 4
    assert hub.listed() == []
    assert hub.app.ask(m.Unsubscribe, "B:b") == {"messages": 4}
    hub.manager.turn(60_001)
    hub.empty()


def test_end_goes_on_after_a_crash() -> None:
    hub = Hub(limits={"turn_rows": 5})
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.publish("t", *(b"%d" % i for i in range(50)))
    hub.park("A:a")
    hub.app.send(m.Unsubscribe(7, "A:a"))
    for _ in range(3):
        hub.manager.turn()
        hub.crash()
        hub.sound()
    hub.empty()


def test_name_is_free_again_and_has_no_history(hub: Hub) -> None:
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.publish("t", b"1")
    hub.park("A:a")
    hub.app.send(m.Unsubscribe(50, "A:a"), m.Subscribe(51, "t", "A:a"))
    hub.manager.rest()
    assert hub.listed() == []
    hub.publish("t", b"2")
    assert hub.take("A:a") == [b"2"]
    hub.empty()


def test_queue_requests_that_would_break_one_are_refused(hub: Hub) -> None:
    hub.subscribe("t", "A:a")
    assert hub.app.code_of(m.QueueDelete, "A:a") is ErrorCode.QUEUE_IS_SUBSCRIPTION
    assert hub.app.code_of(m.QueueCreate, "B:b") is ErrorCode.NAME_INVALID
    assert hub.app.code_of(m.QueueCreate, "~b") is ErrorCode.NAME_INVALID
    assert hub.app.code_of(m.QueueAlter, "A:a", {"backout_threshold": 3}) is ErrorCode.VALUE_INVALID
    assert hub.app.ask(m.QueueList)["queues"][0]["queue"] == "SYSTEM.PUBLICATIONS"
    assert hub.app.ask(m.Status)["subscriptions"] == 1


def test_connection_that_is_lost_ends_its_own_alone(hub: Hub) -> None:
    """C17: a lost connection ends only its own subscriptions."""
    client = hub.manager.connect("B")
    name = hub.subscribe("t", client=client)
    other = hub.subscribe("t", "B:late", client=client)
    mine = hub.subscribe("t")
    hub.publish("t", b"x")
    client.get(name)
    client.hang_up()
    hub.manager.rest()
    names = {row["subscription"] for row in hub.app.ask(m.SubscriptionList)["subscriptions"]}
    assert names == {other, mine}
    assert list(hub.holders().values()) == [2]


def test_unsubscribe_by_another_client_works(hub: Hub) -> None:
    client = hub.manager.connect("B")
    name = hub.subscribe("t", client=client)
    hub.publish("t", b"x")
    held = client.get(name)
    hub.app.ask(m.Unsubscribe, name)
    client.release(*held)
    client.hang_up()
    hub.manager.rest()
    hub.empty()


def test_full_subscription_is_suspended_until_it_is_healthy(hub: Hub) -> None:
    hub.subscribe("t", "A:a", overflow="suspend", depth_max=2)
    hub.publish("t", b"1", b"2", b"3", b"4")
    row = hub.show("A:a")
    assert (row["depth"], row["missed"], row["suspended"]) == (2, 2, True)
    hub.take("A:a")
    hub.publish("t", b"5")
    hub.crash()
    assert hub.take("A:a") == []
    assert hub.show("A:a")["missed"] == 3
    row = hub.app.ask(m.SubscriptionHealthy, "A:a")
    assert (row["suspended"], row["job"]) == (False, None)
    hub.publish("t", b"6")
    assert hub.take("A:a") == [b"6"]
    hub.empty()


def test_unused_subscription_ends(hub: Hub) -> None:
    hub.subscribe("t", "A:a", unused_expiry_ms=DAY_MS)
    hub.publish("t", b"x")
    for _ in range(23):
        hub.manager.turn(3_600_000)
    assert hub.show("A:a")["depth"] == 1
    for _ in range(3):
        hub.manager.turn(3_600_000)
    hub.manager.rest()
    with pytest.raises(RequestError, match="subscription A:a does not exist"):
        hub.show("A:a")
    hub.empty()


def test_used_subscription_stays(hub: Hub) -> None:
    hub.subscribe("t", "A:a", unused_expiry_ms=DAY_MS)
    request_id = hub.app.consume("A:a")
    for _ in range(100):
        hub.manager.turn(3_600_000)
    assert hub.show("A:a")["consumers"] == 1
    hub.app.say(m.Cancel(request_id))
    for _ in range(23):
        hub.manager.turn(3_600_000)
    assert hub.show("A:a")["consumers"] == 0
    hub.get("A:a")
    for _ in range(23):
        hub.manager.turn(3_600_000)
    assert hub.show("A:a")["consumers"] == 0


def test_subscription_used_at_a_crash_has_time_to_return(hub: Hub) -> None:
    """The last use is the time of the crash, and not the time when the client connected."""
    hub.subscribe("t", "A:a", unused_expiry_ms=DAY_MS)
    hub.app.consume("A:a")
    for _ in range(100):
        hub.manager.turn(3_600_000)
    hub.crash()
    hub.manager.turn(60_000)
    hub.manager.rest()
    assert hub.show("A:a")["consumers"] == 0


def test_expiry_may_be_given_later_and_counts_from_then(hub: Hub) -> None:
    hub.subscribe("t", "A:a")
    hub.manager.turn(10 * DAY_MS)
    hub.app.ask(m.QueueAlter, "A:a", {"unused_expiry_ms": DAY_MS})
    for _ in range(23):
        hub.manager.turn(3_600_000)
    hub.manager.rest()
    assert hub.show("A:a")["unused_expiry_ms"] == DAY_MS
    for _ in range(3):
        hub.manager.turn(3_600_000)
    assert hub.app.code_of(m.QueueShow, "A:a") is ErrorCode.SUBSCRIPTION_UNKNOWN


def test_gets_without_number_leave_no_timers(hub: Hub) -> None:
    hub.subscribe("t", "A:a", unused_expiry_ms=DAY_MS)
    for _ in range(300):
        hub.get("A:a")
    assert len(hub.manager.turns.broker.context.timers._heap) < 200


def test_gets_without_number_start_no_jobs(hub: Hub) -> None:
    """Messages are parked, but no operator has decided to republish them."""
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.publish("t", b"x")
    hub.park("A:a")
    for _ in range(5):
        hub.get("A:a")
    assert hub.app.ask(m.JobList)["jobs"] == []


def test_many_subscriptions_of_a_lost_connection_end_over_several_turns() -> None:
    """C17: Otherwise, the turn would grow with their number and might overfill a small store."""
    hub = Hub(limits={"turn_rows": 50})
    gone = hub.manager.connect("gone")
    names = [hub.subscribe("t", client=gone) for _ in range(50)]
    kept = hub.subscribe("t")
    hub.publish("t", b"x")
    gone.hang_up()
    hub.manager.turn()
    there = hub.manager.turns.broker.catalogue.topics.subscriptions
    assert 1 < len(there) < len(names)
    hub.manager.rest()
    assert list(there) == [kept]
    assert hub.take(kept) == [b"x"]
    hub.empty()


def test_subscriptions_before_a_crash_end_despite_further_stops() -> None:
    """C17: In a small store, a start that ends all subscriptions together might never succeed."""
    hub = Hub(limits={"turn_rows": 50})
    for _ in range(50):
        hub.subscribe("t")
    hub.publish("t", b"x")
    for _ in range(3):
        hub.crash()
        hub.manager.turn()
    hub.manager.rest()
    assert not hub.manager.turns.broker.catalogue.topics.subscriptions
    hub.empty()


def test_many_who_are_back_at_once_do_not_take_all_jobs(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: The others receive their copies as soon as another job may run."""
    names = [hub.subscribe("t", f"S:{number}", redelivery_limit=0) for number in range(6)]
    hub.publish("t", b"x")
    for name in names:
        hub.park(name)
    hub.republish()
    monkeypatch.setattr("qmgrd.core.sessions.subscriptions.ENDING_MAX", 2)
    for name in names:
        hub.app.send(m.Consume(hub.app.next_id(), name, 10, 1_000))
    hub.manager.turn()
    assert len(hub.listed()) == 4
    for _ in range(6):
        hub.manager.turn(1_000)
    assert hub.listed() == []


def test_subscriber_that_returns_during_a_job_gets_all_copies() -> None:
    """C16: A request that arrives during a job is not part of that job."""
    hub = Hub(limits={"turn_rows": 10})
    name = hub.subscribe("t", "S:s", redelivery_limit=0)
    hub.publish("t", *[b"%d" % number for number in range(60)])
    hub.park(name)
    hub.republish()
    there = hub.manager.connect("there")
    there.consume(name, messages=1)
    (failed,) = there.delivered()
    jobs = hub.manager.turns.broker.jobs.running
    assert [job.row["target"] for job in jobs.values()] == ["returned"]
    there.release(failed)  # This message was parked again after the job had begun.
    there.hang_up()
    hub.app.ask(m.Republish, False, encode_uid(failed.uid))
    hub.manager.turn()
    assert len(jobs) == 1
    hub.app.consume(name)
    hub.manager.rest()
    assert hub.listed() == []


def test_interval_runs_from_when_the_topic_has_it(hub: Hub) -> None:
    """C14: The interval does not start with the first check of the schedule."""
    hub.manager.turn(5_000)
    hub.app.ask(m.TopicSet, "t", {"republish": "schedule", "republish_interval_ms": 1_000})
    name = hub.subscribe("t", "S:s", redelivery_limit=0)
    hub.publish("t", b"x")
    hub.park(name)
    hub.app.consume(name)
    hub.manager.turn(1_000)
    hub.manager.rest()
    assert hub.listed() == []
