"""Tests that the intervals counted at each change of a topic equal those of a full search."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.catalogue.republish_intervals import INTERVAL, POLICY, SCHEDULED
from qmgrd.core.catalogue.topics import Topics
from qmgrd.core.context.context import Context
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Manager

TOPICS = st.sampled_from(["a", "a/b", "a/b/c", "a-b", "a/c", "b", "a0"])
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        POLICY: st.sampled_from([SCHEDULED, "manual"]),
        INTERVAL: st.sampled_from([1_000, 2_000]),
        "put_inhibit": st.booleans(),
    },
)


def in_force(topics: Topics) -> set[int]:
    """Returns the intervals found by searching all topics."""
    return {
        topics.value(topic, INTERVAL)
        for topic in topics.rows
        if topics.value(topic, POLICY) == SCHEDULED
    }


@given(st.lists(st.tuples(TOPICS, st.none() | GIVEN), max_size=30))
def test_intervals_are_those_of_all_topics(
    changes: list[tuple[str, dict[str, Any] | None]],
) -> None:
    context = Context(Config(), "QM1", b"s" * 16, 1)
    context.tx = MemoryStore().begin()
    topics = Topics(context)
    for topic, given_ in changes:
        before = set(topics.intervals.in_force)
        if given_ is not None:
            changed = topics.define(topic, given_)
        elif topic in topics.rows:
            changed = topics.undefine(topic)
        else:
            continue
        after = set(topics.intervals.in_force)
        assert after == in_force(topics)
        assert before ^ after <= changed
    again = Topics(context)
    again.load()
    assert again.intervals.in_force == topics.intervals.in_force


def test_change_of_a_topic_costs_what_is_below_it() -> None:
    manager = Manager()
    app = manager.connect()
    for number in range(300):
        app.ask(m.TopicSet, f"t/{number}", {POLICY: SCHEDULED, INTERVAL: 1_000 + number})
    context = manager.turns.broker.context
    app.ask(m.TopicSet, "t/7", {POLICY: SCHEDULED, INTERVAL: 9_999})
    assert context.rows <= 10
    app.ask(m.TopicSet, "t", {POLICY: SCHEDULED})
    assert 100 <= context.rows <= 400
