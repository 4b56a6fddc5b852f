"""The consumers and gets that wait at a queue, in the order in which the pump serves them.

A consumer that selects all messages, or has a selector, is in the rotation. A consumer without
credit rests. A consumer that seeks through an index is not in the rotation. Consumers that seek the
same prefix of an index share a position in it. The pump serves these consumers when a message
arrives under that prefix.

A message that becomes available is noted once, for all consumers that select. Before the pump
serves them, they note which messages they must examine again. If this would take too long, because
there are many consumers and messages, the positions of the consumers move back instead.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from itertools import chain

from qmgrd.core.layout import keys
from qmgrd.core.queue.lease import Consumer

# Maximum number of notes of consumers about one message before their positions move back.
TOLD_MAX = 50_000


class Waiting:
    """The consumers and waiting gets of a queue.

    Invariant: an open consumer is in ``rotation``, in ``resting`` or under its prefix in
    ``seeking``. Each consumer in ``selecting`` is also in ``rotation`` or ``resting``, and in
        ``selecting_in`` if it has a prefix.
    """

    __slots__ = (
        "available",
        "consumer_count",
        "ending",
        "reached",
        "resting",
        "rotation",
        "seeking",
        "selecting",
        "selecting_in",
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
        self.selecting_in: dict[bytes, dict[Consumer, None]] = {}  # those with a prefix, by prefix
        # Messages that became available, as pairs of a priority and an arrival number. They are
        # listed by the prefix of the consumers that may select them, or under the empty prefix if
        # all consumers with a selector may.
        self.available: dict[bytes, dict[tuple[int, int], None]] = {}
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
                if consumer.prefix:
                    self.selecting_in.setdefault(consumer.prefix, {})[consumer] = None

    def leave(self, consumer: Consumer) -> None:
        """Removes *consumer*. The cost does not depend on the number of waiting consumers."""
        self.consumer_count -= not consumer.is_get
        self.rotation.pop(consumer, None)
        self.resting.pop(consumer, None)
        self.selecting.pop(consumer, None)
        self.ending.pop(consumer, None)
        selecting = self.selecting_in.get(consumer.prefix)
        if selecting is not None:
            selecting.pop(consumer, None)
            if not selecting:
                del self.selecting_in[consumer.prefix]
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

    def look_again(self, priority: int, arrival: int, prefix: bytes = b"") -> None:
        """Notes a message that may be before the positions of consumers that select.

        Args:
            priority: The priority of the message.
            arrival: The arrival number of the message.
            prefix: The prefix of the consumers that may select it. b"" for all that select.
        """
        if self.selecting and (not prefix or prefix in self.selecting_in):
            available = self.available.setdefault(prefix, {})
            available[priority, arrival] = None
            if len(available) >= TOLD_MAX:
                self.tell()

    def tell(self) -> None:
        """Makes consumers that select examine the messages that became available."""
        for prefix, places in self.available.items():
            consumers = self.selecting_in.get(prefix, {}) if prefix else self.selecting
            if len(consumers) * len(places) > TOLD_MAX:
                _move_back(consumers, places)
                continue
            for consumer in consumers:
                for priority, arrival in places:
                    consumer.look_again(priority, arrival)
        self.available.clear()

    def start_over(self) -> None:
        """Makes all consumers examine all messages again."""
        for consumer in self.selecting:
            consumer.heads, consumer.reached = [0] * (keys.PRIORITY_TOP + 1), b""
        self.reached.clear()
        self.seek_all()


def _move_back(consumers: Collection[Consumer], places: Collection[tuple[int, int]]) -> None:
    """Moves the positions of *consumers* back so that no message in *places* is before them.

    Messages that no consumer has reached, such as new ones, are ignored. Otherwise, an earlier
    message together with many new ones would move the positions back.
    """
    furthest = list(map(max, zip(*(consumer.heads for consumer in consumers), strict=True)))
    lowest = dict[int, int]()
    for priority, arrival in places:
        if arrival < lowest.get(priority, furthest[priority]):
            lowest[priority] = arrival
    for consumer in consumers:
        consumer.move_back(lowest)
