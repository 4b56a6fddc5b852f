"""The consumers and gets that wait at a queue, and whom of them the pump looks after next.

A consumer that takes whatever comes, or has a selector, is in the rotation, or rests without
credit. A consumer that seeks through an index is not: consumers that seek the same share a key of
the index, and a position in it. They are looked after when something comes under that key.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from qmgrd.core.layout import keys
from qmgrd.core.queue.lease import Consumer


class Waiting:
    """The consumers and waiting gets of a queue.

    Invariant: an open consumer is in ``rotation``, in ``resting`` or under its prefix in
    ``seeking``. Those of ``selecting`` are in ``rotation`` or ``resting``, too.
    """

    __slots__ = (
        "consumer_count",
        "ending",
        "reached",
        "resting",
        "rotation",
        "seeking",
        "selecting",
        "sought",
        "unasked",
    )

    def __init__(self) -> None:
        self.consumer_count = 0  # without gets
        self.rotation: OrderedDict[Consumer, None] = OrderedDict()  # the next one first
        self.resting: dict[Consumer, None] = {}  # without credit
        self.unasked = 0  # of the rotation, the first ones, if the others want nothing; 0: all
        self.selecting: OrderedDict[Consumer, None] = OrderedDict()  # they have own positions
        self.ending: dict[Consumer, None] = {}  # gets whose wait is over once they have looked
        self.seeking: dict[bytes, OrderedDict[Consumer, None]] = {}  # by prefix of an index
        self.sought: dict[bytes, None] = {}  # prefixes under which there may be something
        self.reached: dict[bytes, bytes] = {}  # by prefix: the key of the index to look on from

    def __bool__(self) -> bool:
        """Whether any consumer or get waits."""
        return bool(self.rotation or self.resting or self.seeking)

    def __iter__(self) -> Iterator[Consumer]:
        """Yields all consumers and gets."""
        return chain(self.rotation, self.resting, chain.from_iterable(self.seeking.values()))

    def join(self, consumer: Consumer) -> None:
        """Adds *consumer*."""
        self.consumer_count += not consumer.is_get
        if consumer.seeks:
            self.seeking.setdefault(consumer.prefix, OrderedDict())[consumer] = None
            self.sought[consumer.prefix] = None
        else:
            self.rotation[consumer] = None
            if consumer.has_own_position:
                self.selecting[consumer] = None

    def leave(self, consumer: Consumer) -> None:
        """Removes *consumer*, at a cost that does not depend on how many others wait."""
        self.consumer_count -= not consumer.is_get
        self.rotation.pop(consumer, None)
        self.resting.pop(consumer, None)
        self.selecting.pop(consumer, None)
        self.ending.pop(consumer, None)
        seeking = self.seeking.get(consumer.prefix)
        if seeking is not None and consumer.seeks:
            seeking.pop(consumer, None)
            if not seeking:
                del self.seeking[consumer.prefix]
                self.reached.pop(consumer.prefix, None)

    def pause(self, consumer: Consumer) -> None:
        """Takes *consumer*, which has no credit, out of the rotation."""
        del self.rotation[consumer]
        self.resting[consumer] = None

    def resume(self, consumer: Consumer) -> None:
        """Looks after *consumer* again, as it may have credit now."""
        if consumer.seeks:
            self.sought[consumer.prefix] = None
        elif consumer in self.resting and consumer.wants:
            del self.resting[consumer]
            self.rotation[consumer] = None

    def seek_all(self) -> None:
        """Looks after all consumers that seek."""
        self.sought |= dict.fromkeys(self.seeking)

    def seek_from(self, prefix: bytes, key: bytes) -> None:
        """Looks after those who seek *prefix*, from *key* of the index on at the latest."""
        self.sought[prefix] = None
        if key < self.reached.get(prefix, prefix):
            self.reached[prefix] = key

    def look_again(self, priority: int, arrival: int) -> None:
        """Makes those who select look at a message that may be before their positions."""
        for consumer in self.selecting:
            consumer.look_again(priority, arrival)

    def start_over(self) -> None:
        """Makes all consumers look at all messages once more."""
        for consumer in self.selecting:
            consumer.heads, consumer.reached = [0] * (keys.PRIORITY_TOP + 1), b""
        self.reached.clear()
        self.seek_all()
