"""Rules for all operations on topics. Each operation runs on the production core and on a model.

rules (publishing, subscribing, settling, republishing, ends) ─▶ table ─▶ model
                                                                   └───▶ manager
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.qmgrd.core.topics_machine.operators import OF_TOPICS, Operators
from tests.qmgrd.core.topics_machine.subscribers import GIVEN, NAMES, NUMBERS, SEAT_NUMBERS
from tests.qmgrd.core.topics_machine.things import Wish, has

TOPICS = st.sampled_from(["a", "a/b", "a/b", "a/c", "a/b/c", "d"])
PLAIN_WISHES = st.builds(
    Wish,
    topic=st.just(""),
    colour=st.sampled_from(["", "red", "blue"]),
    priority=st.sampled_from([None, None, 0, 4, 4, 9]),
    expiry_ms=st.sampled_from([0, 0, 0, 303, 1_503, 20_003]),
    delay_ms=st.sampled_from([0, 0, 0, 0, 0, 603]),
    is_volatile=st.sampled_from([False, False, False, True]),
    is_retained=st.sampled_from([False, False, False, True]),
    is_empty=st.sampled_from([False, False, False, False, True]),
)


class Machine(Operators):
    """Three clients, several topics and names, time, lost connections and restarts."""

    @initialize(given=st.lists(GIVEN, min_size=3, max_size=3), topics=OF_TOPICS)
    def begin(self, given: list[dict[str, Any]], topics: dict[str, Any]) -> None:
        """Makes some clients subscribe at the start.

        Otherwise, most publications have no subscriber.
        """
        self.topic_set(seat=0, topic="a", given=topics)
        for name, filter_, one in zip(NAMES, ["a/b", "a/#", "#"], given, strict=False):
            self._subscribe(0, name, filter_, "", one, retained=True)

    @rule(seat=SEAT_NUMBERS, number=NUMBERS, wishes=st.lists(PLAIN_WISHES, min_size=1, max_size=3))
    def publish_to_somebody(self, seat: int, number: int, wishes: list[Wish]) -> None:
        """Publishes to a topic that has a subscriber, as is the case for most publications."""
        filters = [x.filter for x in self.model.subscriptions.values()] or ["#"]
        filter_ = filters[number % len(filters)]
        topic = next((x for x in ("a/b", "a", "d", "a/b/c") if has(filter_, x)), "a/c")
        self.publish(seat=seat, topic=topic, wishes=wishes, crashes=False)

    @rule(
        seat=SEAT_NUMBERS,
        topic=TOPICS,
        wishes=st.lists(PLAIN_WISHES, min_size=1, max_size=4),
        crashes=st.sampled_from([False] * 9 + [True]),
        resumes=st.booleans(),
    )
    def publish(
        self, seat: int, topic: str, wishes: list[Wish], crashes: bool, resumes: bool = True
    ) -> None:
        """C1, C4, C9: Each matching subscriber gets one copy, with one UID, despite crashes."""
        made = [Wish(**(vars(wish) | {"topic": topic})) for wish in wishes]
        self.table.publish(self._seat(seat), made, crashes=crashes)
        if crashes:
            self.table.restart(0, is_clean=False, resumes=resumes)
        self.table.end()

    @rule(seat=SEAT_NUMBERS, topic=TOPICS, number=st.integers(1, 3))
    def publish_with_its_own_uid(self, seat: int, topic: str, number: int) -> None:
        """A11: The UID of a held publication is refused, for any topic."""
        self.table.publish(self._seat(seat), [Wish(topic, uid=("O", number))])
        self.table.end()

    @rule(ms=st.sampled_from([10, 100, 310, 500, 1_000, 1_700, 2_500, 10_000, 31_000]))
    def time_passes(self, ms: int) -> None:
        """Overdue leases fail, expired copies end, and due copies are sent."""
        self.table.pass_time(ms)
        self.table.end()

    @rule(seat=SEAT_NUMBERS, resumes=st.booleans())
    def hang_up(self, seat: int, resumes: bool = True) -> None:
        """C2, C17: The connection's subscriptions end, and its leased messages return."""
        self.table.hang_up(self._seat(seat), resumes=resumes)
        self.table.end()

    @rule(
        away_ms=st.sampled_from([0, 0, 410, 5_000]), is_clean=st.booleans(), resumes=st.booleans()
    )
    def restart(self, away_ms: int, is_clean: bool, resumes: bool = True) -> None:
        """C19, C20: Counters and lists survive. Non-durable subscriptions do not."""
        self.table.restart(away_ms, is_clean=is_clean, resumes=resumes)
        self.table.end()

    @precondition(lambda self: self.model.parked())
    @rule(crashes_at=st.integers(1, 2), drop=st.booleans(), resumes=st.booleans())
    def republish_and_crash(self, crashes_at: int, drop: bool, resumes: bool = True) -> None:
        """C19: A republish that was decided is carried out in full, even after a crash."""
        self._republish_all(drop=drop, turns=crashes_at)
        self.table.restart(0, is_clean=False, resumes=resumes)
        self.table.end()

    def teardown(self) -> None:
        """C23: At the end, no publication without a holder is stored."""
        if not self.table.is_amid:
            self._end_all()
            assert not self.model.held()


def rules_of(machine: type[Any]) -> int:
    """Returns the number of rules of the machine."""
    found = [getattr(machine, name) for name in dir(machine)]
    return sum(hasattr(one, "hypothesis_stateful_rule") for one in found)
