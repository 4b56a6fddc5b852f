"""Rules of operators: attributes of topics and subscriptions, and republishing."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid, encode_uid
from tests.qmgrd.core.harness import record
from tests.qmgrd.core.topics_machine.subscribers import NAMES, NUMBERS, SEAT_NUMBERS, Subscribers
from tests.qmgrd.core.topics_machine.table import Seat
from tests.qmgrd.core.topics_machine.things import DEFAULT_LIMIT, Copy, Subscription

Meant = list[tuple[Subscription, Copy]]
WHERES: dict[str, Any] = {
    "": lambda found, copy: True,
    "colour = 'red'": lambda found, copy: copy.publication.wish.colour == "red",
    "topic = 'a/b'": lambda found, copy: copy.publication.wish.topic == "a/b",
    "subscription = 'B:one'": lambda found, copy: found.name == "B:one",
    "failed > 1": lambda found, copy: copy.failed > 1,
    "dead_reason = 'BAD_INPUT'": lambda found, copy: copy.why[1] == "BAD_INPUT",
    "dead_retries = 0": lambda found, copy: copy.retries == 0,
}
ALTERATIONS = st.sampled_from(
    [("redelivery_limit", x) for x in (0, 1, 3, None)]
    + [("depth_max", x) for x in (1, 3, None)]
    + [("overflow", x) for x in ("discard-oldest", "suspend", None)]
    + [("priority_default", x) for x in (2, 9, None)]
    + [("unused_expiry_ms", x) for x in (4_003, None)]
)
OF_TOPICS = st.fixed_dictionaries(
    {},
    optional={
        "redelivery_limit": st.sampled_from([0, 1, 3]),
        "republish": st.sampled_from(["manual", "healthy", "schedule", "schedule"]),
        "republish_interval_ms": st.sampled_from([1_000, 3_000]),
        "put_inhibit": st.just(False),
    },
)


class Operators(Subscribers):
    """Operators who manage topics and parked publications."""

    # -- republishing

    def _republish(
        self,
        seat: int,
        meant: Meant,
        drop: bool,
        where: str = "",
        uid: bytes = b"",
        subscriptions: tuple[str, ...] = (),
        messages_max: int = 0,
    ) -> None:
        model = self.table.begin()
        counts = _done(model, meant, drop=drop, messages_max=messages_max)
        value = self.table.ask(
            self._seat(seat), m.Republish, drop, uid, where, list(subscriptions), 0, messages_max
        )
        assert isinstance(value, dict), value
        row = self.table.ask(self._seat(seat), m.JobShow, value["job"])
        assert row["state"] == "done", row
        assert (row["done"], row["skipped"], row["stayed"]) == counts, (row, counts)
        self.table.end()

    def _republish_all(self, *, drop: bool, turns: int) -> None:
        """Republishes all parked copies in exactly *turns* turns."""
        _done(self.table.begin(), self.model.parked(), drop=drop, messages_max=0)
        self.table.hand_out()
        self.table.expected.clear()
        client = self._seat(0).client
        client.send(m.Republish(client.next_id(), drop))
        for _ in range(turns):
            self.table.manager.turn()

    @rule(
        seat=SEAT_NUMBERS,
        drop=st.sampled_from([False, False, True]),
        where=st.sampled_from(["", "", *WHERES]),
        messages_max=st.sampled_from([0, 0, 0, 1]),
    )
    def republish(self, seat: int, drop: bool, where: str, messages_max: int) -> None:
        """C11, C12, C13, C14, C16: Only the subscribers that failed receive a copy."""
        meant = [x for x in self.model.parked() if WHERES[where](*x)]
        self._republish(seat, meant, drop, where, messages_max=messages_max)

    @precondition(lambda self: self.model.held())
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, drop=st.sampled_from([False, False, True]))
    def republish_one(self, seat: int, number: int, drop: bool) -> None:
        parked = self.model.parked()
        held = [copy.publication for _, copy in parked] or self.model.held()
        publication = held[number % len(held)]
        meant = [x for x in parked if x[1].publication is publication]
        self._republish(seat, meant, drop, uid=self.table.trailer(publication))

    @precondition(lambda self: self.model.subscriptions)
    @rule(
        seat=SEAT_NUMBERS,
        number=NUMBERS,
        drop=st.sampled_from([False, False, True]),
        other=NUMBERS,
        where=st.sampled_from(["", "", "failed > 1"]),
    )
    def republish_to_some(self, seat: int, number: int, drop: bool, other: int, where: str) -> None:
        """Republishes to one subscriber. The other subscribers stay on the list."""
        found = {x.name: x for x in (self._subscription(number), self._subscription(other))}
        meant = [x for x in self.model.parked() if x[0].name in found and WHERES[where](*x)]
        self._republish(seat, meant, drop, where, subscriptions=tuple(found))

    @precondition(lambda self: self.model.parked())
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, lease_ms=st.just(2_003))
    def be_there_and_republish(self, seat: int, number: int, lease_ms: int) -> None:
        """C18: A copy that fails again is parked again."""
        parked = self.model.parked()
        found = parked[number % len(parked)][0]
        self._consume(seat, found, 3, lease_ms)
        self.republish(seat=seat, drop=False, where="", messages_max=0)

    @precondition(lambda self: self.model.subscriptions)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS)
    def say_that_it_is_healthy(self, seat: int, number: int) -> None:
        """C14: A suspended subscription resumes, and the policies of its topics apply."""
        found, model = self._subscription(number), self.table.begin()
        found.is_suspended = False
        is_job = bool(found.those("parked"))
        meant = [x for x in model.of_policy("healthy") if x[0] is found]
        model.republish(meant, is_healthy=True)
        value = self.table.ask(self._seat(seat), m.SubscriptionHealthy, found.name)
        assert (value["job"] is not None) is is_job
        self.table.end()

    # -- attributes

    @precondition(lambda self: self.model.subscriptions)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, alteration=ALTERATIONS)
    def alter(self, seat: int, number: int, alteration: tuple[str, Any]) -> None:
        found, (name, value) = self._subscription(number), alteration
        self.table.begin()
        found.given.pop(name, None)
        if value is not None:
            found.given[name] = value
        self.model.altered(found)
        row = self.table.ask(self._seat(seat), m.QueueAlter, found.name, {name: value})
        assert row[name] == found.value(name), (row, found)
        self.table.end()

    @rule(seat=SEAT_NUMBERS, topic=st.sampled_from(["a", "a/b", "d"]), given=OF_TOPICS)
    def topic_set(self, seat: int, topic: str, given: dict[str, Any]) -> None:
        model = self.table.begin()
        model.topics[topic] = given
        model.look_after_schedule()
        row = self.table.ask(self._seat(seat), m.TopicSet, topic, given)
        limit = model.topic_value(topic, "redelivery_limit", DEFAULT_LIMIT)
        assert row["redelivery_limit"] == limit
        self.table.end()

    @rule(seat=SEAT_NUMBERS, topic=st.sampled_from(["a", "a/b", "d"]), retained=st.booleans())
    def topic_delete(self, seat: int, topic: str, retained: bool) -> None:
        """Deletes the definition of a topic, or its retained publication."""
        model = self.table.begin()
        there: dict[str, Any] = model.retained if retained else model.topics
        code = None if there.pop(topic, None) is not None else ErrorCode.TOPIC_UNKNOWN
        if not (retained or code):
            model.look_after_schedule()
        assert self.table.ask(self._seat(seat), m.TopicDelete, topic, retained) == code
        self.table.end()

    # -- refusals

    @rule(seat=SEAT_NUMBERS, name=st.sampled_from([*NAMES, "~0-0.1", "X:no"]))
    def ask_for_what_cannot_be(self, seat: int, name: str) -> None:
        """C23: Unknown ids are reported, and nothing changes."""
        self.table.begin()
        found, unknown = self._seat(seat), encode_uid(Uid("NOBODY", 7))
        code = ErrorCode.PUBLICATION_UNKNOWN
        assert self.table.ask(found, m.Republish, False, unknown) == code
        assert self.table.ask(found, m.TopicLacks, unknown) == code
        if name not in self.model.subscriptions:
            code = ErrorCode.SUBSCRIPTION_UNKNOWN
            assert self.table.ask(found, m.Unsubscribe, name) == code
            assert self.table.ask(found, m.SubscriptionHealthy, name) == code
            assert self.table.ask(found, m.Republish, False, b"", "", [name]) == code
        else:
            self._put_to(found, name)
        self.table.end()

    def _put_to(self, found: Seat, name: str) -> None:
        """Puts to the queue of a subscription, which only publications may fill."""
        message = m.Put(found.stream, found.next_id, found.next_id - 1, name, [record(b"no")])
        (answer,) = self.table.say(found, message)
        assert [x[:2] for x in answer.refused] == [[found.next_id, ErrorCode.QUEUE_IS_SUBSCRIPTION]]
        found.next_id += 1


def _done(model: Any, meant: Meant, *, drop: bool, messages_max: int) -> tuple[int, int, int]:
    """Republishes in the model; returns how many copies were sent, wait, or lack space."""
    counts = [0, 0, 0]
    for one in meant:
        if messages_max and counts[0] == messages_max:
            break
        done = (model.drop([one]), 0, 0) if drop else model.republish([one])
        counts = [x + y for x, y in zip(counts, done, strict=True)]
    return counts[0], counts[1], counts[2]
