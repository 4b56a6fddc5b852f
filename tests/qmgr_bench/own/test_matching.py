import random
from pathlib import Path

from qmgr_bench.own.matching import matching, topic_of, topics_of, tree_of
from qmgr_bench.setting import Setting
from qmgr_protocol.topic import filter_of, fits, levels_of


def test_each_topic_is_a_new_one() -> None:
    topics = topics_of(5_000, random.Random(1))
    assert len(set(topics)) == len(topics) == 5_000
    assert topic_of(0) == "flights/A0/C0/0/late"


def test_tree_finds_what_each_filter_by_itself_says() -> None:
    tree = tree_of(600, random.Random(1))
    found = 0
    for topic in topics_of(300, random.Random(2)):
        levels = levels_of(topic)
        matches = tree.match(levels)
        assert all(fits(filter_of(one), levels) for one in matches)
        found += len(matches)
    assert found


def test_matching_is_timed_with_what_it_finds() -> None:
    found = matching(Setting(Path(), 0.1, 2, 0.2))
    assert (found.subscriptions, found.topics) == (2_000, 2_000)
    assert found.us > 0
    assert found.matches > 0
