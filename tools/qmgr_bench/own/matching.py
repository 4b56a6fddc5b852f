"""Matching of topics with 10,000 wildcard subscriptions: the daemon's tree, in this process.

No topic is repeated, so no result is cached. Checking a topic and splitting it into levels are
included.
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
AIRPORTS, CARRIERS, NUMBERS = 200, 50, 400  # flights/A17/C3/241/late
TOPICS_MAX = AIRPORTS * CARRIERS * NUMBERS
SHAPES = (  # in the proportions listed here
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
    topics: int  # timed, each a new one
    us: float  # per topic, of the processor
    matches: float  # per topic, on average


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
    """Returns *count* different topics, or all there are."""
    chosen = die.sample(range(TOPICS_MAX), min(count, TOPICS_MAX))
    return [topic_of(number) for number in chosen]


def topic_of(number: int) -> str:
    """Returns one of TOPICS_MAX topics."""
    rest, flight = divmod(number, NUMBERS)
    airport, carrier = divmod(rest, CARRIERS)
    return f"flights/A{airport}/C{carrier}/{flight}/late"
