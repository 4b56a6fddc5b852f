"""The tree finds by a topic those whose filters have it, no more and no less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import topic as topics
from qmgrd.core import topic_tree
from qmgrd.core.topic_tree import KNOWN_MAX, TopicTree

LEVELS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)
FILTERS = st.tuples(
    st.lists(st.sampled_from(["a", "b", "+"]), max_size=3), st.sampled_from(["a", "+", "#"])
).map(lambda found: (*found[0], found[1]))


@given(st.lists(st.tuples(st.integers(0, 20), FILTERS)), st.lists(LEVELS))
def test_tree_finds_what_each_filter_has(
    changes: list[tuple[int, tuple[str, ...]]], asked: list[tuple[str, ...]]
) -> None:
    """Filters come and go; a topic is asked for in between, too, so that answers are kept."""
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


def test_nothing_is_left_of_what_is_gone() -> None:
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
