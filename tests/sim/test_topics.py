"""Tests that worlds of topics break no invariant, and that planted bugs break one."""

from collections import Counter
from typing import Any

import pytest

from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.jobs import jobs
from qmgrd.core.jobs.job import DONE
from qmgrd.core.layout import keys
from qmgrd.core.puts import fan_out
from qmgrd.core.puts.fan_out import publication_of
from qmgrd.core.puts.publications import Publications
from qmgrd.core.queue import settle
from qmgrd.core.queue.references import References
from qmgrd.core.returns import parked
from tests.sim.ledger import Violated
from tests.sim.topics import TopicWorld

SEEDS = 60  # Only a few of these seeds find the rarest bug.
Patch = pytest.MonkeyPatch


@pytest.mark.long  # `make check` simulates other seeds
@pytest.mark.parametrize("seed", range(12))
def test_topics_break_no_law(seed: int) -> None:
    """C4, C9-C13, C15-C19, C23: Each subscriber gets its publications once.

    Failed publications are parked, and republished.
    """
    TopicWorld(seed).run()


def test_same_seed_leaves_the_same_bytes() -> None:
    first, second = TopicWorld(5), TopicWorld(5)
    first.run()
    second.run()
    assert first.digest() == second.digest()


@pytest.mark.long
def test_each_feature_occurs() -> None:
    wanted = {
        "parked",
        "republished",
        "consumed again",
        "dropped",
        "expired",
        "retained given",
        "carried",
        "groups parked",
        "units committed",
        "pushed out",
        "purged",
        "ended",
        "subscription suspended",
    }
    met: Counter[str] = Counter()
    for seed in range(12, 40):
        world = TopicWorld(seed)
        world.run()
        met += world.watch.happened
        if wanted <= met.keys():
            return
    assert not wanted - met.keys()


def assert_found(*laws: str, first: int = 0) -> None:
    """Asserts that some seed from *first* on breaks one of *laws*.

    Raises:
        AssertionError: No seed breaks any of these invariants.
    """
    found = []
    for seed in range(first, first + SEEDS):
        try:
            TopicWorld(seed).run()
        except Violated as violated:
            found.append(violated.law)
            if violated.law in laws:
                return
    raise AssertionError(f"none of {laws} was broken in {SEEDS} seeds, but {found}")


def _has(context: Any, queue_id: int, arrival: int) -> bool:
    places = (
        keys.message(queue_id, lane, priority, arrival) for lane in range(4) for priority in (4, 7)
    )
    return any(context.tx.get(key) is not None for key in places)


@pytest.mark.long
def test_republish_to_all_subscribers_is_found(monkeypatch: Patch) -> None:
    """C11, C21: A republication is a duplicate for subscribers that had already received it."""
    step = jobs._WORK["republish"]

    def again(context: Any, catalogue: Any, job: Any) -> Any:
        stop = keys.after(keys.SPACE_PARKED)
        for found in list(parked.index(context.tx, keys.SPACE_PARKED, stop)):
            value = context.tx.get(keys.publication(found.arrival))
            publication = publication_of(context, found.arrival, value)
            assert publication is not None
            for one in catalogue.topics.match(publication.entry.target):
                if one.queue is not None and not _has(context, one.queue.id, found.arrival):
                    fan_out.add(context, catalogue, one.queue, publication)
        return step(context, catalogue, job)

    monkeypatch.setitem(jobs._WORK, "republish", again)
    assert_found("nothing_is_doubled", "nobody_else_gets_it")


def test_parked_publication_that_stays_in_line_is_found(monkeypatch: Patch) -> None:
    park = parked.park

    def twice(context: Any, queue: Any, key: bytes, value: bytes, *rest: Any) -> None:
        park(context, queue, key, value, *rest)
        context.tx.put(key, value)
        queue.counters.depth += 1

    monkeypatch.setattr(parked, "park", twice)
    assert_found("counters_equal_contents")


def test_parked_publication_on_no_list_is_found(monkeypatch: Patch) -> None:
    park = parked.park

    def forgetful(context: Any, queue: Any, key: bytes, *rest: Any) -> None:
        park(context, queue, key, *rest)
        context.tx.delete(keys.parked(keys.place(key)[1], queue.id))

    monkeypatch.setattr(parked, "park", forgetful)
    assert_found("parked_is_on_the_list")


@pytest.mark.long
def test_republish_that_keeps_the_name_on_the_list_is_found(monkeypatch: Patch) -> None:
    send = parked.send

    def forgetful(context: Any, queue: Any, key: bytes, value: bytes) -> bool:
        done = send(context, queue, key, value)
        if done:
            context.tx.put(keys.parked(keys.place(key)[1], queue.id), b"\5")
        return done

    monkeypatch.setattr(parked, "send", forgetful)
    assert_found("parked_is_on_the_list")


def test_holder_that_is_not_released_is_found(monkeypatch: Patch) -> None:
    """With this bug, publications are never deleted."""
    release = References.remove

    def forgetful(self: References, arrival: int) -> None:
        if arrival % 7:
            release(self, arrival)

    monkeypatch.setattr(References, "remove", forgetful)
    assert_found("publications_are_held")


def test_holder_that_is_released_twice_is_found(monkeypatch: Patch) -> None:
    """With this bug, other subscribers lose the publication."""
    release = References.remove

    def eager(self: References, arrival: int) -> None:
        release(self, arrival)
        if arrival % 7 == 0:
            release(self, arrival)

    monkeypatch.setattr(References, "remove", eager)
    assert_found("publication_is_kept", "publications_are_held")


@pytest.mark.long
def test_fan_out_that_starts_again_after_a_crash_is_found(monkeypatch: Patch) -> None:
    """C19: the bug does not store the position of the fan-out."""
    monkeypatch.setattr(Publications, "_store", lambda self: None)
    assert_found("each_gets_its_own", "publications_are_held")


@pytest.mark.long
def test_fan_out_that_forgets_the_subscribers_it_reached_is_found(monkeypatch: Patch) -> None:
    """When a batch continues after a crash, some subscribers receive the publication again."""
    resume = Publications._resume

    def anew(self: Publications, queue: Any, first: int, stop: int, queue_id: int) -> None:
        resume(self, queue, first, stop, 0)

    monkeypatch.setattr(Publications, "_resume", anew)
    assert_found("nothing_is_doubled", "counters_equal_contents", "publications_are_held", first=8)


@pytest.mark.long
def test_late_subscriber_that_gets_older_publications_is_found(monkeypatch: Patch) -> None:
    """C15: a late subscriber must not get older publications."""
    monkeypatch.setattr(Subscription, "first", property(lambda self: 0))
    assert_found("nobody_else_gets_it", "each_gets_its_own")


@pytest.mark.long
def test_retained_publication_that_reaches_no_new_subscriber_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setitem(jobs._WORK, "retained", lambda *arguments: DONE)
    assert_found("each_gets_its_own")


@pytest.mark.long
def test_ack_that_does_not_remove_a_parked_publication_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(settle, "_LANES", (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED))
    assert_found("settled_is_durable")
