"""Matching of topics with 10,000 wildcard subscriptions by the daemon's tree, in this process.

No topic is repeated, so no lookup finds a cached result. The time includes checking a topic and
splitting it into levels.
"""

import random
import time
from dataclasses import dataclass

from qmgr_bench.median import median
from qmgr_bench.setting import Setting
from qmgr_protocol.topic import filter_of, levels_of
from qmgrd.core.catalogue.topic_tree import TopicTree

SUBSCRIPTIONS = 10_000
TOPICS_A_ROUND = 5_000
# number of values of each level in a topic such as flights/A17/C3/241/late
AIRPORTS, CARRIERS, NUMBERS = 200, 50, 400
TOPICS_MAX = AIRPORTS * CARRIERS * NUMBERS
SHAPES = (  # filters of the subscriptions, in equal proportions
    "flights/{a}/{c}/{n}/late",
    "flights/{a}/+/{n}/late",
    "flights/+/{c}/{n}/late",
    "flights/{a}/{c}/#",
    "flights/{a}/{c}/+/late",
    "flights/+/{c}/{n}/#",
)


@dataclass(frozen=True, slots=True)
class Matching:
    """The cost of finding the subscriptions of a topic."""

    subscriptions: int
    topics: int  # number of timed topics, all different
    us: float  # processor time per topic
    matches: float  # average number of matches per topic


def matching(setting: Setting) -> Matching:
    """Times the tree with new topics in each round."""
    die = random.Random(7)
    tree, count = tree_of(setting.scaled(SUBSCRIPTIONS), die), setting.scaled(TOPICS_A_ROUND)
    topics = topics_of(count * setting.rounds, die)
    spent, matches = [], 0
    for number in range(setting.rounds):
        part = topics[number * count : (number + 1) * count]
        start_ns = time.thread_time_ns()
        for topic in part:
            matches += len(tree.match(levels_of(topic)))
        spent.append((time.thread_time_ns() - start_ns) / 1000 / count)
    total = setting.scaled(SUBSCRIPTIONS)
    return Matching(total, len(topics), median(spent), round(matches / len(topics), 1))


def tree_of(count: int, die: random.Random) -> TopicTree[str]:
    """Returns a tree of *count* subscriptions with random filters."""
    tree: TopicTree[str] = TopicTree()
    for number in range(count):
        filter_ = SHAPES[number % len(SHAPES)].format(
            a=f"A{die.randrange(AIRPORTS)}",
            c=f"C{die.randrange(CARRIERS)}",
            n=die.randrange(NUMBERS),
        )
        tree.add(filter_of(filter_), f"BENCH:s{number}", filter_)
    return tree


def topics_of(count: int, die: random.Random) -> list[str]:
    """Returns *count* different topics, at most TOPICS_MAX."""
    chosen = die.sample(range(TOPICS_MAX), min(count, TOPICS_MAX))
    return [topic_of(number) for number in chosen]


def topic_of(number: int) -> str:
    """Returns the topic of *number*, which is below TOPICS_MAX."""
    rest, flight = divmod(number, NUMBERS)
    airport, carrier = divmod(rest, CARRIERS)
    return f"flights/A{airport}/C{carrier}/{flight}/late"
