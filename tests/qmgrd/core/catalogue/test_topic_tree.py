"""Tests that the tree finds exactly the filters that match a topic."""

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import topic as topics
from qmgr_protocol.topic import ONE
from qmgrd.core.catalogue import topic_tree
from qmgrd.core.catalogue.topic_tree import KNOWN_MAX, TopicTree, _Node

LEVELS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)
FILTERS = st.tuples(
    st.lists(st.sampled_from(["a", "b", "+"]), max_size=3), st.sampled_from(["a", "+", "#"])
).map(lambda found: (*found[0], found[1]))


@given(st.lists(st.tuples(st.integers(0, 20), FILTERS)), st.lists(LEVELS))
def test_tree_finds_what_each_filter_has(
    changes: list[tuple[int, tuple[str, ...]]], asked: list[tuple[str, ...]]
) -> None:
    """Filters are added and removed. Lookups in between fill the cache of answers."""
    tree: TopicTree[int] = TopicTree()
    there: dict[int, tuple[str, ...]] = {}
    for number, filter_ in changes:
        if number in there:
            tree.remove(there.pop(number), str(number))
        else:
            there[number] = filter_
            tree.add(filter_, str(number), number)
        for topic in asked:
            expected = {name for name, known in there.items() if topics.fits(known, topic)}
            found = tree.match(topic)
            assert (len(found), set(found)) == (len(expected), expected)


def test_removed_filters_leave_no_nodes() -> None:
    tree: TopicTree[int] = TopicTree()
    for filter_ in (("a", "b", "#"), ("a", "+"), ("#",), ("a", "b", "c")):
        tree.add(filter_, "x", 1)
        tree.remove(filter_, "x")
    assert tree._root.is_empty


def test_answers_that_are_kept_have_a_limit() -> None:
    tree: TopicTree[int] = TopicTree()
    tree.add(("#",), "x", 1)
    for number in range(KNOWN_MAX + 10):
        assert tree.match((str(number),)) == (1,)
    assert len(tree._known) <= KNOWN_MAX


def test_what_is_kept_is_bounded_where_many_want_many_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_tree, "KNOWN_THINGS_MAX", 100)
    tree: TopicTree[int] = TopicTree()
    for number in range(30):
        tree.add(("#",), f"S:{number}", number)
    for number in range(50):
        assert len(tree.match((str(number),))) == 30
        assert sum(map(len, tree._known.values())) < 130


def visits_of(tree: TopicTree[int], topic: tuple[str, ...]) -> int:
    """Returns the number of nodes that a match visits, not counting the answers."""
    nodes, visits = [tree._root], 1
    for level in topic:
        nodes = [node.below[x] for node in nodes for x in (level, ONE) if x in node.below]
        visits += len(nodes)
    return visits


def reach_of(node: _Node[int]) -> int:
    """Computes the reach according to its definition."""
    names = [reach_of(below) for level, below in node.below.items() if level != ONE]
    one = node.below.get(ONE)
    return 1 + (0 if one is None else reach_of(one)) + max(names, default=0)


@given(st.lists(st.tuples(st.integers(0, 20), FILTERS)), st.lists(LEVELS))
def test_no_topic_visits_more_nodes_than_the_reach_of_the_root(
    changes: list[tuple[int, tuple[str, ...]]], asked: list[tuple[str, ...]]
) -> None:
    """Each change of a filter updates the reach. A filter's effect on the reach is known before."""
    tree: TopicTree[int] = TopicTree()
    there: dict[int, tuple[str, ...]] = {}
    for number, filter_ in changes:
        if number in there:
            tree.remove(there.pop(number), str(number))
        else:
            there[number] = filter_
            expected = tree.reach_with(filter_)
            tree.add(filter_, str(number), number)
            assert tree._root.reach == expected
        assert tree._root.reach == reach_of(tree._root)
        for topic in asked:
            assert visits_of(tree, topic) <= tree._root.reach
            tree.visited = 0
            tree.match(topic)
            assert tree.visited <= tree._root.reach + len(tree.match(topic))


def hostile_filters() -> Iterator[tuple[str, ...]]:
    """Yields all filters of x and + with 14 levels, then filters whose levels occur in no topic."""
    for levels in product("x+", repeat=14):
        yield (*levels, *["y"] * 18)


def test_hostile_filters_are_refused_before_a_topic_visits_thousands_of_nodes() -> None:
    tree: TopicTree[int] = TopicTree()
    refused = 0
    for number, filter_ in enumerate(hostile_filters()):
        if tree.reach_with(filter_) > 4_096:
            refused += 1
        else:
            tree.add(filter_, str(number), number)
    assert refused > 10_000
    tree.visited = 0
    assert tree.match(("x",) * 32) == ()
    assert tree.visited <= 4_096


def test_filters_as_people_have_them_reach_little() -> None:
    tree: TopicTree[int] = TopicTree()
    for number in range(10_000):
        airport, airline = f"A{number % 300}", f"L{number % 90}"
        for filter_ in (
            ("flights", airport, "+"),
            ("flights", "+", airline),
            ("flights", airport, airline),
            ("+", airport, "#"),
            (f"app{number}", "+", "errors", "#"),
        ):
            tree.add(filter_, str(number), number)
    assert tree._root.reach < 20
