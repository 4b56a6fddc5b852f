"""Tests that publications are stored once, and sent once to each matching subscription."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import keys
from qmgrd.core.puts import publications
from qmgrd.core.selector import selector
from qmgrd.core.sessions.request_part import PartLimits
from tests.disk_stores import disk_store
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import AnyStore, record
from tests.qmgrd.core.pubsub import PUBLICATIONS, Hub, faults, rot, topic_of
from tests.qmgrd.core.ticking import MS_NS, Ticking
from tests.qmgrd.core.unit_of_work import UnitOfWork


@pytest.fixture
def hub(store: AnyStore) -> Iterator[Hub]:
    hub = Hub(store)
    yield hub
    hub.sound()
    audit(hub.manager)


def small() -> Hub:
    """Returns a hub with a small limit of rows per turn."""
    return Hub(limits={"turn_rows": 10})


def test_matching_subscriptions_get_copies_of_one_stored_publication(hub: Hub) -> None:
    """C4, C1: Each subscription gets a copy with one id. Another publication has another id."""
    names = [hub.subscribe("t/+", f"S:{number}") for number in range(20)]
    hub.subscribe("other", "S:other")
    hub.publish("t/u", b"x", b"x")
    assert hub.stored == 2
    found = [hub.get(name) for name in names]
    assert all([one.body for one in some] == [b"x", b"x"] for some in found)
    assert all(topic_of(one) == "t/u" for some in found for one in some)
    assert len({one.uid for some in found for one in some}) == 2
    assert hub.get("S:other") == []
    for some in found[:-1]:
        hub.app.ack(*some)
    assert hub.stored == 2
    hub.app.ack(*found[-1])
    hub.empty()


def test_topic_with_no_subscribers_stores_nothing(hub: Hub) -> None:
    hub.publish("t", b"x" * 10_000, b"y")
    hub.empty()


def test_publisher_hears_how_many_subscriptions_it_fits(hub: Hub) -> None:
    for name in ("S:1", "S:2"):
        hub.subscribe("t/#", name)
    hub.subscribe("t/u", "S:3")
    hub.publish("none", b"x")
    for topic in ("t/u", "t", "v"):
        hub.send(topic, record(b"x"))
    hub.manager.turn()
    (answer,) = [x for x in hub.app.hear() if type(x) is m.Committed]
    assert answer.matched == [[2, 1, 3], [3, 1, 2], [4, 1, 0]]


def test_two_topics_in_one_turn_keep_their_order(hub: Hub) -> None:
    hub.subscribe("#", "S:all")
    hub.subscribe("t/b", "S:b")
    for number in range(1, 7):
        hub.send("t/a" if number % 2 else "t/b", record(b"%d" % number))
    hub.manager.rest()
    assert hub.take("S:all") == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert hub.take("S:b") == [b"2", b"4", b"6"]


def test_publications_go_out_over_many_turns(hub: Hub) -> None:
    """A fan-out that exceeds the limit of a turn is divided into slices."""
    hub = small()
    names = [hub.subscribe("t", f"S:{number}") for number in range(30)]
    hub.app.send(m.Get(99, "S:29", 1, 60_000))
    hub.app.hear()
    hub.send("t", record(b"1"), record(b"2"))
    hub.manager.turn()
    assert hub.manager.turns.broker.publications.is_busy
    assert faults(hub.manager) == []
    hub.manager.rest()
    assert [hub.app.bodies(name) for name in names] == [[b"1", b"2"]] * 30
    hub.sound()


class Chaos:
    """Publishes while subscriptions begin and end, with crashes. ``wants`` has expected copies."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hub = Hub(limits={"turn_rows": self.chance.choice([3, 10, 30])})
        self.hub.app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
        self.wants: dict[str, list[bytes]] = {}
        self.made = self.published = 0

    def publish(self) -> None:
        bodies = [b"%d" % (self.published + i) for i in range(self.chance.randint(1, 6))]
        self.published += len(bodies)
        self.hub.publish("t/u", *bodies)
        for some in self.wants.values():
            some += bodies

    def turn(self) -> None:
        self.hub.manager.turn()

    def crash(self) -> None:
        self.hub.crash()
        assert faults(self.hub.manager) == []

    def come(self) -> None:
        self.made += 1
        name = f":s{self.made}" + "@NYC" * (self.chance.random() < 0.2)
        self.wants[self.hub.subscribe("t/#", name, retained=False)] = []

    def end(self) -> None:
        if name := self.chance.choice([x for x in self.wants if "@" not in x] or [""]):
            self.hub.app.ask(m.Unsubscribe, name)
            del self.wants[name]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_each_has_each_once_whatever_happens_meanwhile(seed: int) -> None:
    """C19: Subscriptions begin and end, and the daemon crashes. Each copy still arrives once."""
    chaos = Chaos(seed)
    hub, wants = chaos.hub, chaos.wants
    for _ in range(4):
        chaos.come()
    acts = [chaos.publish, chaos.turn] * 4 + [chaos.crash, chaos.come, chaos.end]
    for _ in range(60):
        chaos.chance.choice(acts)()
    hub.sound()
    expected = {name: some for name, some in wants.items() if "@" not in name}
    assert {name: hub.app.bodies(name) for name in expected} == expected
    proxies = [name for name in wants if "@" in name]
    if proxies:  # A link carries each message once.
        longest = max((wants[name] for name in proxies), key=len)
        assert hub.app.bodies("@NYC") == longest
    audit(hub.manager)
    for name in expected:
        hub.take(name, 10_000)
    hub.empty()


def test_crash_before_a_proxy_had_its_part_loses_nothing() -> None:
    """Proxies have no queue id, so the stored position cannot distinguish between proxies."""
    hub = Hub(limits={"turn_rows": 1})
    for peer in ("NYC", "SFO"):
        hub.app.ask(m.LinkCreate, peer, {"addresses": ["h:1"], "stopped": True})
        hub.subscribe("t", f":p@{peer}")
    hub.subscribe("t", "S:1")
    hub.send("t", record(b"1"))
    for _ in range(6):
        hub.manager.turn()
        hub.crash()
    hub.sound()
    assert hub.app.bodies("@NYC") == [b"1"]
    assert hub.app.bodies("@SFO") == [b"1"]
    assert hub.app.bodies("S:1") == [b"1"]


def test_late_subscriber_has_nothing_of_before(hub: Hub) -> None:
    """C15: The earlier publication may not have been sent out yet."""
    hub = small()
    for number in range(30):
        hub.subscribe("t", f"S:{number}")
    hub.send("t", record(b"1"))
    hub.app.send(m.Subscribe(900, "t", "S:late"))
    hub.send("t", record(b"2"))
    hub.manager.rest()
    assert hub.app.bodies("S:late") == [b"2"]
    assert hub.app.bodies("S:29") == [b"1", b"2"]


def test_publisher_that_sends_again_publishes_once(hub: Hub) -> None:
    """The put of a UID that already exists is refused before the fan-out."""
    hub.subscribe("t", "S:1")
    hub.subscribe("t", "S:2")
    hub.publish("t", b"x", uid=("MINE", 1))
    (refused,) = hub.app.put_records("/t", record(b"x", uid=("MINE", 1)))
    assert refused.code is ErrorCode.DUPLICATE_MESSAGE
    assert hub.take("S:1") == [b"x"]
    assert hub.app.put_records("/t", record(b"x", uid=("MINE", 1)))
    assert hub.take("S:2") == [b"x"]
    assert hub.take("S:1") == []


def test_uid_is_remembered_if_requested(hub: Hub) -> None:
    """All subscribers have consumed the publication, or no subscription matched it."""
    hub.subscribe("t", "S:1")
    hub.app.ask(m.QueueAlter, PUBLICATIONS, {"dedup_retention_ms": 60_000})
    hub.publish("t", b"x", uid=("MINE", 1))
    hub.publish("u", b"y", uid=("MINE", 2))
    assert hub.take("S:1") == [b"x"]
    assert hub.stored == 0
    for number in (1, 2):
        (refused,) = hub.app.put_records("/t", record(b"x", uid=("MINE", number)))
        assert refused.code is ErrorCode.DUPLICATE_MESSAGE
    hub.manager.turn(60_001)
    hub.publish("t", b"x", uid=("MINE", 1))
    assert hub.take("S:1") == [b"x"]
    hub.manager.turn(60_001)
    hub.empty()


@pytest.mark.parametrize("size", [3_000, 4_101, 1_100_000])
def test_long_publication_is_stored_once(hub: Hub, size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    for name in ("S:1", "S:2"):
        hub.subscribe("t", name, redelivery_limit=0)
    hub.publish("t", body)
    pieces = len(hub.manager.scan(keys.SPACE_BODY))
    assert pieces == -(-hub.manager.queue(PUBLICATIONS).counters.bytes // 4_000) * (size > 4_000)
    hub.park("S:1")
    assert hub.take("S:2") == [body]
    hub.app.consume("S:1")
    hub.republish()
    (again,) = hub.app.delivered()
    assert again.body == body
    hub.app.ack(again)
    hub.empty()


def test_non_persistent_message_is_lost_in_a_restart(hub: Hub) -> None:
    hub.subscribe("t", "S:1")
    hub.subscribe("t", "S:2")
    hub.publish("t", b"gone", b"x" * 5_000, flags=records.FLAG_NOT_PERSISTENT)
    hub.publish("t", b"stays")
    hub.restart()
    hub.sound()
    assert hub.take("S:1") == [b"stays"]
    assert hub.take("S:2") == [b"stays"]
    hub.empty()


@pytest.mark.parametrize("turns", range(8))
def test_crash_during_the_fan_out_of_a_non_persistent_publication_is_harmless(turns: int) -> None:
    hub = small()
    for number in range(20):
        hub.subscribe("t", f"S:{number}")
    hub.publish("t", b"before", flags=records.FLAG_NOT_PERSISTENT)
    hub.manager.rest()
    gone = record(b"x", flags=records.FLAG_NOT_PERSISTENT)
    hub.send("t", gone, record(b"stays"), gone)
    for _ in range(turns):
        hub.manager.turn()
    hub.crash()
    assert faults(hub.manager) == []
    hub.sound()
    audit(hub.manager)
    for number in range(20):
        assert set(hub.take(f"S:{number}")) <= {b"stays", b"x"}
    hub.empty()


def test_delayed_publication_is_delayed_for_each(hub: Hub) -> None:
    for name in ("S:1", "S:2"):
        hub.subscribe("t", name)
    hub.publish("t", b"x", delay_ms=1_000)
    assert hub.take("S:1") == []
    hub.restart()
    hub.sound()
    hub.manager.turn(1_001)
    assert hub.take("S:1") == [b"x"]
    assert hub.take("S:2") == [b"x"]
    hub.empty()


def test_delayed_publication_may_expire_before_its_time(hub: Hub) -> None:
    hub.subscribe("t", "S:1")
    hub.publish("t", b"x", delay_ms=5_000, expiry_ms=1_000)
    hub.manager.turn(7_000)
    hub.manager.rest()
    assert hub.take("S:1") == []
    hub.empty()


def test_publication_expires_by_the_rules_of_each_subscription(hub: Hub) -> None:
    hub.subscribe("t", "S:own")
    hub.subscribe("t", "S:cap", expiry_max_ms=1_000)
    hub.subscribe("t", "S:dead", expiry_action="dead-letter")
    hub.subscribe("t", "S:dead2", expiry_action="dead-letter")
    hub.publish("t", b"x", expiry_ms=5_000)
    hub.publish("t", b"forever")
    hub.manager.turn(1_001)
    hub.manager.rest()
    assert hub.show("S:cap")["depth"] == 0
    assert hub.show("S:own")["depth"] == 2
    hub.manager.turn(5_000)
    hub.manager.rest()
    assert [hub.take(name) for name in ("S:own", "S:dead", "S:dead2")] == [[b"forever"]] * 3
    assert hub.app.bodies("SYSTEM.DEAD.LETTERS") == [b"x"]
    assert hub.stored == 0


@pytest.mark.parametrize("kind", [m.QueuePurge, m.QueueMove, m.Get, m.Consume, m.QueueDelete])
def test_queue_of_publications_cannot_be_emptied(hub: Hub, kind: type[m.Message]) -> None:
    """A purge, move, get or deletion of the queue of publications is refused."""
    hub.app.ask(m.QueueCreate, "Q")
    hub.subscribe("t", "S:1")
    hub.publish("t", b"x")
    fields = {
        m.QueuePurge: (),
        m.QueueMove: ("Q",),
        m.Get: (1, 0, 0, 1 << 30),
        m.Consume: (1, 1 << 30),
        m.QueueDelete: (),
    }[kind]
    assert hub.app.code_of(kind, PUBLICATIONS, *fields) in (
        ErrorCode.QUEUE_IS_TRANSMISSION,
        ErrorCode.QUEUE_IS_SYSTEM,
    )
    assert hub.app.code_of(m.QueueMove, "S:1", PUBLICATIONS) in (
        ErrorCode.QUEUE_IS_TRANSMISSION,
        ErrorCode.QUEUE_IS_SUBSCRIPTION,
    )
    assert hub.app.bodies(PUBLICATIONS) == [b"x"]
    assert hub.take("S:1") == [b"x"]


def test_publications_are_limited_as_any_queue(hub: Hub) -> None:
    hub.subscribe("t", "S:1")
    hub.app.ask(m.QueueAlter, PUBLICATIONS, {"depth_max": 2})
    refused = hub.app.put_records("/t", *(record(b"%d" % i) for i in range(4)))
    assert [x.code for x in refused] == [ErrorCode.QUEUE_FULL] * 2
    hub.app.ask(m.QueueAlter, PUBLICATIONS, {"put_inhibit": True})
    with pytest.raises(RequestError, match="inhibited"):
        raise RequestError(*hub.app.put_records("/t", record(b"x"))[0][1:], 0)
    for attribute, value in (("overflow", "discard-oldest"), ("expiry_max_ms", 5)):
        assert (
            hub.app.code_of(m.QueueAlter, PUBLICATIONS, {attribute: value})
            is ErrorCode.VALUE_INVALID
        )


def test_template_is_not_for_publications(hub: Hub) -> None:
    hub.app.ask(m.TemplateSet, "*", {"overflow": "discard-oldest", "depth_max": 1})
    hub.subscribe("t", "S:1")
    hub.publish("t", b"1", b"2")
    assert hub.take("S:1") == [b"1", b"2"]


def test_subscriptions_and_publications_refuse_puts(hub: Hub) -> None:
    hub.subscribe("t", "S:1")
    for name in ("S:1", PUBLICATIONS):
        (refused,) = hub.app.put_records(name, record(b"x"))
        assert refused.code is ErrorCode.QUEUE_IS_SUBSCRIPTION


@pytest.mark.parametrize("topic", ["", "a//b", "+", "a/#", "x" * 201, "a@b", "a/\n"])
def test_topic_that_is_none_is_refused(hub: Hub, topic: str) -> None:
    if len(topic) > 199:
        topic = topic[:199]  # This is the longest name that a put may have, including the slash.
        return
    (refused,) = hub.app.put_records(f"/{topic}", record(b"x"))
    assert refused.code is ErrorCode.TOPIC_INVALID


def test_unit_publishes_with_its_commit(hub: Hub) -> None:
    """A backout publishes nothing. Other publications do not wait for the unit."""
    hub.subscribe("t", "S:1")
    unit, other = UnitOfWork(hub.app, 1), UnitOfWork(hub.app, 2)
    unit.put("/t", b"1", b"2")
    other.put("/t", b"never")
    hub.publish("t", b"0")
    hub.sound()
    assert hub.app.bodies("S:1") == [b"0"]
    other.backout()
    assert not unit.commit()
    assert hub.take("S:1") == [b"0", b"1", b"2"]
    hub.empty()


def test_subscription_made_while_a_unit_is_open_has_what_it_commits(hub: Hub) -> None:
    """The publication takes place at the commit. No number is used twice, even after a crash."""
    hub.subscribe("t", "S:before")
    unit = UnitOfWork(hub.app)
    unit.put("/t", b"1")
    hub.subscribe("t", "S:late")
    hub.crash()
    hub.publish("t", b"2")
    unit = UnitOfWork(hub.app)
    unit.put("/t", b"3")
    assert not unit.commit()
    for name in ("S:before", "S:late"):
        assert hub.take(name) == [b"2", b"3"]
    hub.empty()


def test_unit_consumes_from_subscriptions_and_publishes_further(hub: Hub) -> None:
    for name, topic in (("S:1", "t"), ("S:2", "t"), ("S:3", "u")):
        hub.subscribe(topic, name, redelivery_limit=1)
    hub.publish("t", b"x")
    unit = UnitOfWork(hub.app)
    unit.take(*hub.get("S:1"))
    unit.put("/u", b"y")
    unit.backout()
    hub.manager.rest()
    assert hub.app.bodies("S:3") == []
    unit = UnitOfWork(hub.app)
    (again,) = hub.get("S:1")
    unit.take(again)
    unit.put("/u", b"y")
    assert not unit.commit()
    assert hub.take("S:3") == [b"y"]
    assert hub.app.bodies("S:1") == []
    assert hub.take("S:2") == [b"x"]
    hub.empty()


def test_backouts_of_a_unit_count_and_park(hub: Hub) -> None:
    """C7: A subscriber works in units of work."""
    hub.subscribe("t", "S:1", redelivery_limit=1)
    hub.publish("t", b"x")
    for _ in range(2):
        unit = UnitOfWork(hub.app)
        unit.take(*hub.get("S:1"))
        unit.backout()
        hub.manager.rest()
    assert hub.listed() == ["S:1"]


def test_damaged_publication_is_set_aside_for_each_subscriber(hub: Hub) -> None:
    """The daemon does not crash, and other subscribers continue."""
    for name in ("S:1", "S:2"):
        hub.subscribe("t", name, redelivery_limit=0, expiry_action="dead-letter")
    hub.publish("t", b"1", expiry_ms=1_000)
    hub.publish("t", b"2")
    hub.park("S:2")
    rot(hub, 1)
    assert hub.take("S:1") == [b"2"]
    assert hub.show("S:1")["damaged"] == 1
    hub.manager.turn(1_001)  # If it were intact, the message would be a dead letter of S:2 now.
    hub.manager.rest()
    assert hub.app.bodies("SYSTEM.DEAD.LETTERS") == []
    assert hub.show("S:2")["damaged"] == 1
    hub.app.consume("S:2")
    hub.republish()
    assert [one.body for one in hub.app.delivered()] == [b"2"]
    for name in ("S:1", "S:2"):
        hub.app.ask(m.Unsubscribe, name)
    hub.empty()


def test_damaged_publication_does_not_block_the_fan_out() -> None:
    """The damaged publication is set aside, and the others are sent, even over several turns."""
    hub = Hub(limits={"turn_rows": 1_500})
    for number in range(20):
        hub.subscribe("t", f"S:{number}")
    for first in (1, 301):
        batch = [record(b"%d" % i) for i in range(first, first + 300)]
        hub.send("t", *batch)
    hub.manager.turn()
    rot(hub, 400, whole=True)
    hub.crash()
    hub.manager.rest()
    assert len(hub.app.bodies("S:1")) == 599
    assert hub.manager.queue(PUBLICATIONS).counters.damaged == 1


def test_ordered_messages_of_a_link_are_published_after_a_crash(hub: Hub) -> None:
    """The link's puts are applied in slices, after the fan-out of the turn."""
    hub.subscribe("t", "S:1")
    far = Far(hub.manager)
    far.open(ordered=True)
    batch = [message(i) for i in range(1, 6)]
    far.client.send(m.Put(far.stream, 1, 0, "/t", batch))
    for _ in range(3):
        hub.manager.turn()
        if hub.stored:
            break
    hub.crash()
    hub.sound()
    assert hub.take("S:1") == [b"%d" % i for i in range(1, 6)]
    hub.empty()


def test_no_job_brings_messages_to_a_topic(hub: Hub) -> None:
    hub.app.ask(m.QueueCreate, "Q")
    assert hub.app.code_of(m.QueueMove, "Q", "/t") is ErrorCode.NAME_INVALID


def test_full_store_delays_the_fan_out_until_space_is_free() -> None:
    """References to stored publications must not use the space that deletions need."""
    hub = Hub(limits={"turn_rows": 10})
    hub.subscribe("t", "S:1")
    hub.app.peer._part_limits = PartLimits(records=300)  # All are stored before the store is full.
    hub.send("t", *(record(b"%d" % number) for number in range(300)))
    hub.manager.turn()
    map_bytes, hub.manager.store.map_bytes = hub.manager.store.map_bytes, 10_000
    queue = hub.manager.queue("S:1")
    hub.manager.turn()
    given = queue.counters.depth
    assert given < 300
    hub.app.send(m.Subscribe(90, "#", "S:2"))  # The job of this subscription is waiting as well.
    for _ in range(3):
        hub.manager.turn(1_000)
        assert hub.manager.rest() < 10
    assert queue.counters.depth == given
    hub.manager.store.map_bytes = map_bytes
    hub.manager.turn(1_000)
    hub.manager.rest()
    assert queue.counters.depth == 300
    hub.sound()


MAP_BYTES = 4 << 20


def crowded(directory: Path, count: int) -> tuple[Hub, list[str]]:
    """Returns a hub in a small map, with *count* subscriptions."""
    store = {"map_bytes": MAP_BYTES, "free_disk_min_bytes": 0}
    hub = Hub(disk_store(directory, MAP_BYTES), store=store)
    return hub, [hub.subscribe("t", f"S:{number}") for number in range(count)]


@pytest.mark.long
def test_fan_out_waits_where_the_store_is_nearly_full(tmp_path: Path) -> None:
    """Otherwise, references would fill the store, and the daemon would stop at each start."""
    hub, names = crowded(tmp_path, 300)
    bodies = [b"%d" % number for number in range(400)]
    hub.publish("t", *bodies)
    assert hub.manager.rest() < 500
    assert hub.manager.turns.broker.publications.is_busy
    # The timer must run because an operator may free disk space.
    assert hub.manager.turns.broker.next_timer_ms() is not None
    hub.crash()
    hub.manager.rest()
    found: dict[str, list[bytes]] = {name: [] for name in names}
    for _ in range(20):
        for name in names:
            while some := hub.take(name):
                found[name] += some
    assert all(some == bodies for some in found.values())
    hub.empty()
    hub.manager.store.close()


@pytest.mark.long
def test_full_store_refuses_subscriptions(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="STORE_FULL"):
        crowded(tmp_path, 10_000)


def test_many_topics_that_many_want_go_out_in_short_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C19: A batch begun before a crash stays the same, even if subscriptions are added."""
    monkeypatch.setattr(publications, "BATCH_MATCHES_MAX", 40)
    hub = small()
    names = [hub.subscribe("#", f"S:{number}") for number in range(20)]
    for number in range(10):
        hub.send(f"t/{number}", record(b"%d" % number))
    lengths = set()
    while hub.manager.turns.has_work:
        hub.manager.turn()
        batch = hub.manager.turns.broker.publications._batch
        lengths.add(len(batch.found) if batch is not None else 0)
        if batch is not None and len(names) < 60:
            names += [hub.subscribe("#", f"S:{len(names)}") for _ in range(20)]
            hub.crash()
    assert max(lengths) == 2
    bodies = [b"%d" % number for number in range(10)]
    assert [hub.take(name) for name in names[:20]] == [bodies] * 20
    hub.sound()


def test_publication_to_many_proxies_needs_space_for_all_copies(tmp_path: Path) -> None:
    """Proxies carry copies. In a small store, these would use the space that deletions need."""
    hub, _ = crowded(tmp_path, 0)
    for number in range(30):
        hub.app.ask(m.LinkCreate, f"N{number}", {"addresses": ["h:1"], "stopped": True})
        hub.subscribe("t", f":p@N{number}")
    (refused,) = hub.app.put_records("/t", record(b"x" * 100_000))
    assert refused.code is ErrorCode.STORE_FULL
    unit = UnitOfWork(hub.app)
    unit.put("/t", record(b"x" * 100_000))
    assert unit.commit() == [ErrorCode.STORE_FULL]
    hub.publish("t", b"short")
    assert hub.app.bodies("@N29") == [b"short"]
    hub.manager.store.close()


# A selector that takes about 0.6 ms on a message whose header t is long.
COSTLY = " OR ".join(["t LIKE '%" + "a" * 60 + "_b%'"] * 10)
LONG = {"headers": {"t": "a" * 4_096}}


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepts costly selectors of new subscriptions, as an older daemon did."""
    monkeypatch.setattr(selector, "SUBSCRIPTION_STEPS_MAX", 1 << 40)


@pytest.mark.usefixtures("older")
def test_publications_go_out_over_many_turns_if_selectors_are_costly(hub: Hub) -> None:
    """The selectors count 24,000 rows in total. A turn has 5,000, and finishes its last step."""
    for number in range(4):
        hub.subscribe("t", f"S:{number}", where=f"{COSTLY} OR correlation_id = 'c'")
    hub.send("t", *(record(b"%d" % i, correlation_id=b"c", envelope=LONG) for i in range(100)))
    turns = 0
    while True:
        hub.manager.turn()
        turns += 1
        assert hub.manager.turns.broker.context.rows < 6_000
        if not hub.manager.turns.broker.publications.is_busy:
            break
        if turns % 2 == 0:
            hub.crash()
    assert turns >= 4
    for number in range(4):
        assert hub.take(f"S:{number}") == [b"%d" % i for i in range(100)]
    hub.empty()


@pytest.mark.usefixtures("older")
def test_step_of_the_fan_out_is_short_if_a_selector_is_costly() -> None:
    """The daemon looks at the time after each step. It always takes the first step."""
    ticking = Ticking()
    hub = Hub(clock_ns=ticking)
    names = [
        hub.subscribe("t", f"S:{number}", where=f"{COSTLY} OR correlation_id = 'c'")
        for number in range(3)
    ]
    hub.send("t", *(record(b"x", correlation_id=b"c", envelope=LONG) for _ in range(100)))
    ticking.step_ns = 1_000 * MS_NS
    hub.manager.turn()
    depths = [hub.manager.queue(name).counters.depth for name in names]
    assert 0 < depths[0] < 20
    assert depths[1:] == [0, 0]
    ticking.step_ns = 0
    hub.manager.rest()
    assert [len(hub.take(name)) for name in names] == [100] * 3
    hub.empty()
