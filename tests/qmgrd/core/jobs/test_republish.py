"""Tests that parked publications are sent again, but only to the subscriptions that parked them."""

from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid, encode_uid
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Delivery
from tests.qmgrd.core.pubsub import Hub, faults, is_republished


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub(limits={"turn_rows": 40})
    yield hub
    hub.sound()
    audit(hub.manager)


def parked(hub: Hub, *names: str, bodies: tuple[bytes, ...] = (b"x",), **fields: Any) -> None:
    """Parks each publication for these subscriptions, which have open consumers."""
    for name in names:
        hub.subscribe("t/#", name, redelivery_limit=0)
    hub.publish("t/u", *bodies, **fields)
    hub.park(*names)


def uid_of(row: dict[str, Any]) -> bytes:
    origin, _, timestamp = row["uid"].rpartition(".")
    return encode_uid(Uid(origin, int(timestamp)))


def delivered(hub: Hub) -> list[Delivery]:
    hub.manager.rest()
    return hub.app.delivered()


@pytest.mark.slow
def test_copies_go_to_those_on_the_list_alone(hub: Hub) -> None:
    """C4, C9, C11, C12, C13: Of a thousand subscribers, only the three that failed get a copy."""
    names = [f"S:{number}" for number in range(1_000)]
    bad = {"S:7", "S:500", "S:999"}
    for name in names:
        hub.subscribe("t", name, redelivery_limit=3)
    hub.publish("t", b"x")
    ids = {hub.app.consume(name) for name in names}
    assert len(ids) == 1_000
    first = delivered(hub)
    assert len(first) == 1_000
    named = {hub.manager.queue(name).id: name for name in names}
    deliveries = dict.fromkeys(names, 0)
    while first:
        for one in first:
            name = named[one.queue_id]
            deliveries[name] += 1
            (hub.app.release if name in bad else hub.app.ack)(one)
        first = delivered(hub)
    assert {name: count for name, count in deliveries.items() if count != 1} == dict.fromkeys(
        bad, 4
    )
    assert set(hub.listed()) == bad
    assert hub.stored == 1
    job = hub.republish()
    again = delivered(hub)
    assert job["done"] == 3
    assert {named[one.queue_id] for one in again} == bad
    assert all(is_republished(one) and one.body == b"x" for one in again)
    assert len({one.uid for one in again}) == 1
    hub.app.ack(*again[:1])
    assert hub.stored == 1
    for one in again[1:]:
        hub.app.ack(one)
    hub.empty()


def test_counts_of_a_republished_copy_begin_anew(hub: Hub) -> None:
    """D2, C18: The copy fails again, and is parked again, once."""
    hub.subscribe("t", "A:a", redelivery_limit=2)
    hub.publish("t", b"x")
    hub.park("A:a")
    hub.app.consume("A:a")
    hub.republish()
    seen = []
    while found := delivered(hub):
        seen += [(one.failed, is_republished(one)) for one in found]
        hub.app.release(*found)
    assert seen == [(0, True), (1, True), (2, True)]
    (row,) = hub.parked()
    assert (row["subscription"], row["republished"]) == ("A:a", 1)


def test_list_shrinks_with_each_copy_and_goes_at_its_end(hub: Hub) -> None:
    """C13: After A's copy, the list is {B}. After B's copy, the publication is deleted."""
    parked(hub, "A:a", "B:b")
    for name in ("A:a", "B:b"):
        hub.app.consume(name)
    hub.republish(subscriptions=("A:a",))
    assert hub.listed() == ["B:b"]
    hub.app.ack(*delivered(hub))
    assert hub.stored == 1
    hub.republish()
    assert hub.listed() == []
    hub.app.ack(*delivered(hub))
    hub.empty()


def test_republish_selects_publication_subscriber_or_selector(hub: Hub) -> None:
    """C14: An operator selects by message, subscriber or selector, or selects all messages."""
    parked(hub, "A:a", "B:b", bodies=(b"1", b"22", b"333"))
    hub.app.consume("A:a")
    hub.app.consume("B:b")
    second = uid_of(hub.parked()[2])
    assert hub.republish(uid=second)["done"] == 2
    assert {one.body for one in delivered(hub)} == {b"22"}
    assert (
        hub.republish(where="subscription = 'B:b' AND topic = 't/u'", messages_max=1)["done"] == 1
    )
    assert [one.body for one in delivered(hub)] == [b"1"]
    assert hub.republish(where="dead_code = 'NOTHING'")["done"] == 0
    assert hub.republish(subscriptions=("A:a",))["done"] == 2
    assert hub.listed() == ["B:b"]
    assert hub.republish()["done"] == 1
    assert hub.listed() == []


def test_subscriber_that_is_away_stays_on_the_list_until_it_is_back(hub: Hub) -> None:
    """C16: The copy is sent when the subscriber opens a consumer."""
    parked(hub, "A:a")
    job = hub.republish()
    assert (job["done"], job["skipped"]) == (0, 1)
    assert [row["awaits_return"] for row in hub.parked()] == [True]
    hub.restart()
    assert hub.listed() == ["A:a"]
    hub.app.consume("A:a")
    (again,) = delivered(hub)
    assert is_republished(again)
    hub.app.ack(again)
    hub.empty()


def test_returning_subscriber_gets_only_republished_copies(hub: Hub) -> None:
    parked(hub, "A:a")
    hub.app.consume("A:a")
    assert delivered(hub) == []
    assert hub.listed() == ["A:a"]
    assert hub.app.ask(m.JobList)["jobs"] == []


def test_subscriber_that_polls_is_back_with_its_next_get(hub: Hub) -> None:
    """C16: A subscriber that never opens a consumer receives the copy through a get."""
    parked(hub, "A:a")
    hub.republish()
    assert hub.take("A:a") == [b"x"]
    hub.empty()


def test_late_subscriber_has_nothing(hub: Hub) -> None:
    """C15: A later subscriber receives neither the publication nor a republished copy."""
    parked(hub, "A:a")
    hub.subscribe("t/#", "L:late")
    hub.app.consume("A:a")
    hub.app.consume("L:late")
    hub.republish()
    found = delivered(hub)
    assert [one.queue_id for one in found] == [hub.manager.queue("A:a").id]


def test_who_is_gone_is_off_the_list(hub: Hub) -> None:
    """C17, C2: The subscription ends with its connection, and its name is never used again."""
    client = hub.manager.connect("gone")
    name = hub.subscribe("t", client=client, redelivery_limit=0)
    hub.publish("t", b"x")
    found = client.get(name)
    client.release(*found)
    assert hub.listed() == [name]
    client.hang_up()
    hub.manager.rest()
    assert hub.listed() == []
    hub.empty()
    again = hub.manager.connect("gone")
    other = hub.subscribe("t", client=again)
    assert other != name
    assert hub.republish()["done"] == 0
    assert again.get(other) == []


def test_restart_ends_non_durable_subscriptions(hub: Hub) -> None:
    """C17, D9: Their entries are removed, and their names are never used again."""
    names = {hub.subscribe("t", redelivery_limit=0) for _ in range(3)}
    hub.publish("t", b"x")
    hub.park(*names)
    for _ in range(3):
        hub.crash()
        hub.empty()
        new = {hub.subscribe("t") for _ in range(3)}
        assert not new & names
        names |= new


def test_subscription_is_deleted_while_a_job_sends(hub: Hub) -> None:
    """C23: None of its leased, parked and republished messages is left."""
    parked(hub, "A:a", "B:b", bodies=tuple(b"%d" % i for i in range(100)))
    hub.app.consume("A:a", messages=10)
    hub.app.consume("B:b", messages=10)
    hub.app.send(m.Republish(500))
    for _ in range(3):
        hub.manager.turn()
    assert len(hub.app.delivered()) > 0
    assert hub.app.ask(m.Unsubscribe, "A:a") == {"messages": 100}
    assert hub.app.ask(m.Unsubscribe, "B:b") == {"messages": 100}
    hub.empty()


def test_full_subscription_keeps_what_is_parked(hub: Hub) -> None:
    parked(hub, "A:a")
    hub.app.ask(m.QueueAlter, "A:a", {"depth_max": 1})
    hub.publish("t", b"new")
    hub.app.consume("A:a", messages=0)
    job = hub.republish()
    assert (job["done"], job["stayed"]) == (0, 1)
    assert "full" in job["text"]
    assert hub.listed() == ["A:a"]


def test_dropped_publication_is_never_sent(hub: Hub) -> None:
    parked(hub, "A:a", "B:b", bodies=(b"1", b"2"))
    assert hub.republish(drop=True, subscriptions=("A:a",))["done"] == 2
    assert hub.listed() == ["B:b", "B:b"]
    assert hub.republish(drop=True)["done"] == 2
    hub.empty()


def test_unknown_ids_are_errors_and_change_nothing(hub: Hub) -> None:
    """C23: Each request with an unknown id is refused."""
    parked(hub, "A:a")
    nobody = encode_uid(Uid("QM1", 7))
    ask = hub.app.code_of
    unknown = ErrorCode.PUBLICATION_UNKNOWN
    assert ask(m.Republish, False, nobody) is unknown
    assert ask(m.Republish, False, b"x") is unknown
    assert ask(m.RepublishList, None, 10, "", nobody) is unknown
    assert ask(m.TopicLacks, nobody) is unknown
    who = ErrorCode.SUBSCRIPTION_UNKNOWN
    assert ask(m.Republish, False, b"", "", ["B:b"]) is who
    assert ask(m.Unsubscribe, "B:b") is who
    assert ask(m.SubscriptionHealthy, "B:b") is who
    assert ask(m.Republish, False, b"", "nonsense (") is ErrorCode.SELECTOR_INVALID
    assert hub.listed() == ["A:a"]


def test_republished_message_arrives_in_its_old_place(hub: Hub) -> None:
    """The copy is marked as republished, so the subscriber knows that later messages came first."""
    parked(hub, "A:a", bodies=(b"1",))
    hub.publish("t", b"2")
    hub.app.consume("A:a", messages=0)
    hub.republish()
    assert [(one.body, is_republished(one)) for one in hub.get("A:a")] == [
        (b"1", True),
        (b"2", False),
    ]


def test_listed_or_delivered_and_never_both(hub: Hub) -> None:
    """A republish during a redelivery does not send the copy, which is not on the list."""
    hub.subscribe("t", "A:a", redelivery_limit=2)
    hub.publish("t", b"x")
    hub.fail("A:a")
    (held,) = hub.get("A:a")
    assert hub.republish()["examined"] == 0
    assert hub.get("A:a") == []
    hub.app.ack(held)
    hub.empty()


def test_rate_is_kept(hub: Hub) -> None:
    parked(hub, "A:a", bodies=tuple(b"%d" % i for i in range(30)))
    hub.app.consume("A:a")
    hub.app.send(m.Republish(500, rate=10))
    counts = []
    for _ in range(30):
        hub.manager.turn(100)
        counts.append(len(hub.app.delivered()))
    assert max(counts) <= 2
    assert sum(counts) >= 25


def test_job_can_be_cancelled(hub: Hub) -> None:
    parked(hub, "A:a", bodies=tuple(b"%d" % i for i in range(30)))
    hub.app.consume("A:a")
    job = hub.app.ask(m.Republish, False, b"", "", [], 1)
    hub.manager.turn(100)
    assert hub.app.ask(m.JobCancel, job["job"])["state"] == "cancelled"
    hub.manager.rest()
    assert hub.listed()


def test_healthy_subscriber_gets_parked_copies_by_policy(hub: Hub) -> None:
    """C14: The subscriber itself reports that it is healthy."""
    hub.app.ask(m.TopicSet, "t/u", {"republish": "healthy"})
    hub.subscribe("t/#", "A:a", redelivery_limit=0)
    hub.publish("t/u", b"1")
    hub.publish("t/v", b"2")
    hub.park("A:a")
    hub.app.consume("A:a")
    row = hub.app.ask(m.SubscriptionHealthy, "A:a")
    assert row["job"]
    assert [one.body for one in delivered(hub)] == [b"1"]
    assert [row["topic"] for row in hub.parked()] == ["t/v"]


@pytest.mark.parametrize("restarts", [False, True])
def test_schedule_sends_what_is_parked_of_its_topics_in_its_interval(
    hub: Hub, *, restarts: bool
) -> None:
    """C14: A timer republishes the messages of each topic at the topic's own interval."""
    for topic, interval_ms in (("t/u", 10_000), ("t/v", 60_000)):
        given = {"republish": "schedule", "republish_interval_ms": interval_ms}
        hub.app.ask(m.TopicSet, topic, given)
    hub.subscribe("t/#", "A:a", redelivery_limit=0)
    for topic in ("t/u", "t/v", "t/w"):
        hub.publish(topic, topic[-1:].encode())
    hub.park("A:a")
    if restarts:
        hub.restart()
    hub.app.consume("A:a")
    seen = []
    for second in range(70):
        hub.manager.turn(1_000)
        for one in delivered(hub):
            seen.append((second + 1, one.body))
            hub.app.ack(one)
    assert seen == [(10, b"u"), (60, b"v")]
    assert [row["topic"] for row in hub.parked()] == ["t/w"]


def test_no_timer_runs_where_no_topic_wants_one() -> None:
    hub = Hub()
    before = hub.manager.turns.broker.next_timer_ms()
    hub.app.ask(m.TopicSet, "t", {"republish": "schedule"})
    assert hub.manager.turns.broker.next_timer_ms() == hub.manager.now().ms + 1_000
    hub.app.ask(m.TopicDelete, "t")
    hub.manager.turn(1_001)
    assert hub.manager.turns.broker.next_timer_ms() == before


@pytest.mark.parametrize("turns", range(1, 14))
def test_crash_at_any_step_leaves_the_copy_or_the_list(turns: int) -> None:
    """C19: The subscriber either receives the copy once or is on the list."""
    hub = Hub(limits={"turn_rows": 20})
    names = [f"S:{number}" for number in range(6)]
    parked(hub, *names, bodies=(b"1", b"2"))
    for name in names:
        hub.app.consume(name, messages=0)
    hub.app.send(m.Republish(500))
    for _ in range(turns):
        hub.manager.turn()
    hub.crash()
    assert faults(hub.manager) == []
    check(hub, names)
    hub.crash()
    check(hub, names)
    for name in names:
        hub.app.consume(name, messages=0)
    hub.republish()
    found = [one for name in names for one in hub.get(name)]
    assert sorted(one.body for one in found) == [b"1"] * 6 + [b"2"] * 6
    for one in found:
        hub.app.ack(one)
    hub.empty()


def check(hub: Hub, names: list[str]) -> None:
    """Checks that, for each subscription, each publication is either listed or delivered."""
    listed = [(row["subscription"], row["uid"]) for row in hub.parked()]
    there = [(name, str(one.uid)) for name in names for one in hub.app.browse(name)]
    assert len(listed) + len(there) == 12
    assert len({*listed, *there}) == 12


def test_publishing_again_doubles_it_for_the_healthy() -> None:
    """C21: Publishing again sends a second copy to the 97 of 100 subscribers that are healthy."""
    hub = Hub()
    names = [f"S:{number}" for number in range(100)]
    for name in names:
        hub.subscribe("t", name, redelivery_limit=0)
    hub.publish("t", b"x")
    hub.park(*names[:3])
    for name in names[3:]:
        assert hub.take(name) == [b"x"]
    hub.publish("t", b"x")
    assert sum(hub.take(name) == [b"x"] for name in names[3:]) == 97


def test_copy_without_space_is_sent_when_space_is_free(hub: Hub) -> None:
    hub.subscribe("t", "A:a", redelivery_limit=0, depth_max=1)
    hub.publish("t", b"1")
    hub.park("A:a")
    hub.republish()
    hub.publish("t", b"2")
    (found,) = hub.get("A:a")
    hub.manager.rest()
    assert found.body == b"2"
    assert hub.listed() == ["A:a"]
    hub.app.ack(found)
    assert hub.take("A:a") == [b"1"]
    hub.empty()


def test_republished_copies_take_tokens_of_the_user_who_began_the_job(hub: Hub) -> None:
    parked(hub, ":S", bodies=(b"x",) * 5)
    hub.app.consume(":S")
    guarded = Guarded(hub.manager)
    bob = guarded.user("bob", roles=("administrator",))
    guarded.owner.ask(m.UserAlter, "bob", {"puts_per_s_max": 2})
    job = bob.ask(m.Republish, False, b"", "", [], 0, 0)["job"]
    hub.manager.rest()
    assert guarded.job(job)["done"] == 2
    hub.manager.turn(501)
    hub.manager.rest()
    assert 3 <= guarded.job(job)["done"] <= 4, "a part of a token allows a message"
    for _ in range(4):
        hub.manager.turn(501)
        hub.manager.rest()
    assert (guarded.job(job)["done"], guarded.job(job)["state"]) == (5, "done")
