"""The consumers and gets that wait at a queue, in the order in which the pump serves them.

A consumer that selects all messages, or has a selector, is in the rotation. A consumer without
credit rests. A consumer that seeks through an index is not in the rotation. Consumers that seek the
same prefix of an index share a position in it. The pump serves these consumers when a message
arrives under that prefix.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from qmgrd.core.layout import keys
from qmgrd.core.queue.lease import Consumer


class Waiting:
    """The consumers and waiting gets of a queue.

    Invariant: an open consumer is in ``rotation``, in ``resting`` or under its prefix in
    ``seeking``. Each consumer in ``selecting`` is also in ``rotation`` or ``resting``.
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
        self.consumer_count = 0  # number of consumers, without gets
        # Consumers; the one to serve next is first.
        self.rotation: OrderedDict[Consumer, None] = OrderedDict()
        self.resting: dict[Consumer, None] = {}  # consumers without credit
        # The number of consumers at the front of the rotation that the pump must still serve,
        # because the others found nothing. 0 means all consumers.
        self.unasked = 0
        # Consumers with separate positions.
        self.selecting: OrderedDict[Consumer, None] = OrderedDict()
        self.ending: dict[Consumer, None] = {}  # gets that end after a last search
        # Consumers that seek through an index, by prefix.
        self.seeking: dict[bytes, OrderedDict[Consumer, None]] = {}
        self.sought: dict[bytes, None] = {}  # index prefixes that may have an available message
        self.reached: dict[bytes, bytes] = {}  # the index key from which to continue, by prefix

    def __bool__(self) -> bool:
        """Returns whether any consumer or get is waiting."""
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
        """Removes *consumer*. The cost does not depend on the number of waiting consumers."""
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
        """Moves *consumer*, which has no credit, from the rotation to the resting consumers."""
        del self.rotation[consumer]
        self.resting[consumer] = None

    def resume(self, consumer: Consumer) -> None:
        """Makes the pump serve *consumer* again if it has credit now."""
        if consumer.seeks:
            self.sought[consumer.prefix] = None
        elif consumer in self.resting and consumer.wants:
            del self.resting[consumer]
            self.rotation[consumer] = None

    def seek_all(self) -> None:
        """Marks all consumers that seek through an index to be served."""
        self.sought |= dict.fromkeys(self.seeking)

    def seek_from(self, prefix: bytes, key: bytes) -> None:
        """Marks the consumers that seek *prefix* to be served, from the index *key* or earlier."""
        self.sought[prefix] = None
        if key < self.reached.get(prefix, prefix):
            self.reached[prefix] = key

    def look_again(self, priority: int, arrival: int) -> None:
        """Makes consumers that select examine a message that may be before their positions."""
        for consumer in self.selecting:
            consumer.look_again(priority, arrival)

    def start_over(self) -> None:
        """Makes all consumers examine all messages again."""
        for consumer in self.selecting:
            consumer.heads, consumer.reached = [0] * (keys.PRIORITY_TOP + 1), b""
        self.reached.clear()
        self.seek_all()
