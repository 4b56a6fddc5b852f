"""Sequenced producers: puts that may be sent again without ever being stored twice.

A producer has a stable id and numbers its puts. The queue manager stores its window: the commit id
and the ids held above it. Until the producer has seen them, it also stores which ids were refused
and why, and which UIDs were given. A refused id enters the window like a stored one, so that a
repeated put receives the same answer. The row is written in the same turn as the messages.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from itertools import islice

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import CreditExceeded, ErrorCode, RequestError, name_of
from qmgr_protocol.window import Inbox, runs_of
from qmgrd.core.context import committed
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.value_checks import number, stored_ids

EVICT_SAMPLE = 64
EVICT_IDLE_MS = 10 * 60_000
STAMP_RUNS_MAX = 128  # of the latest puts; more exist only if answers arrive very late


@dataclass(slots=True)
class Producer:
    """The receiving end of a producer's stream.

    Invariant: ``refused`` has only ids above ``seen``, all of them received.
    """

    producer_id: bytes
    inbox: Inbox
    used_ms: int = 0  # store clock of its last opening or commit
    seen: int = 0  # the producer has all answers up to here
    refused: dict[int, int] = field(default_factory=dict)  # id to code
    instance: int = 0  # of the program that opened it last, except resumptions
    # Runs as in Committed, of ids above seen.
    stamps: list[list[int]] = field(default_factory=list)

    @property
    def key(self) -> bytes:
        """The key of the stored row."""
        return keys.SPACE_PRODUCER + self.producer_id

    def encode(self) -> bytes:
        """Returns the stored row."""
        ahead = runs_of(self.inbox.ahead)
        codes = set(self.refused.values())
        refused = [
            [code, runs_of(i for i, x in self.refused.items() if x == code)] for code in codes
        ]
        row: bytes = pack(
            [
                self.inbox.commit_id,
                self.used_ms,
                self.seen,
                ahead,
                refused,
                self.instance,
                self.stamps,
            ]
        )
        return row

    def note_seen(self, seen: int) -> None:
        """Forgets refusals that the producer has seen."""
        if seen <= self.seen:
            return
        self.seen = min(seen, self.inbox.commit_id)
        if self.refused:
            self.refused = {i: code for i, code in self.refused.items() if i > self.seen}
        if self.stamps:
            self.stamps = [run for run in self.stamps if run[0] + run[2] > self.seen + 1]

    def note_stamps(self, first_id: int, timestamp: int, count: int) -> None:
        """Remembers which UIDs were given, until the producer has seen them."""
        committed.add_stamps(self.stamps, first_id, timestamp, count)
        if len(self.stamps) > STAMP_RUNS_MAX:
            del self.stamps[0]

    def check(self, first_id: int, count: int) -> None:
        """Raises if the ids from *first_id* on exceed the window of the producer."""
        last_id = first_id + count - 1
        self.inbox.check(last_id)
        unseen = last_id - self.seen
        limit = 2 * self.inbox.window
        if unseen > limit:
            raise CreditExceeded("puts not marked as seen", unseen, limit)

    def answers(self, first_id: int, last_id: int) -> list[list[object]]:
        """Returns the refusals from *first_id* to *last_id*, as in Committed."""
        return [
            [seq_id, code, f"refused when it came first: {name_of(code)}"]
            for seq_id, code in self.refused.items()
            if first_id <= seq_id <= last_id
        ]

    def stamps_of(self, first_id: int, last_id: int) -> list[list[int]]:
        """Returns the known runs of stamps from *first_id* to *last_id*, as in Committed."""
        found = []
        for first, timestamp, count in self.stamps:
            start, end = max(first, first_id), min(first + count, last_id + 1)
            if start < end:
                found.append([start, timestamp + start - first, end - start])
        return found


def _stored_runs(runs: list[list[int]]) -> list[list[int]]:
    """Returns the stamps of a stored row."""
    return [[number(x, "a stamp") for x in (run[0], run[1], run[2])] for run in runs]


def load(tx: Transaction, producer_id: bytes, window: int) -> Producer | None:
    """Returns the stored producer of that id, or None.

    Raises:
        RowDamaged: its row is.
    """
    row = rows.find(tx, keys.SPACE_PRODUCER + producer_id)
    if row is None:
        return None
    with rows.decoding(keys.SPACE_PRODUCER + producer_id):
        commit_id, used_ms, seen, ahead, refused, instance, *more = unpack(row)
        for value in (commit_id, used_ms, seen):
            number(value, "a number of the window")
        number(instance, "the instance", 0, 2**64)
        inbox = Inbox(window, commit_id, stored_ids(ahead))
        codes = {seq_id: number(code, "a code") for code, x in refused for seq_id in stored_ids(x)}
        stamps = _stored_runs(more[0]) if more else []
        return Producer(producer_id, inbox, used_ms, seen, codes, instance, stamps)


def used_ms_of(key: bytes, value: bytes) -> int | None:
    """Returns when the producer of a stored row was last used; None for a damaged row.

    A damaged row stays: without it the producer begins again, and repeated puts are stored twice.
    """
    try:
        used_ms = number(unpack(rows.unseal(key, value))[1], "the time of its last use")
    except rows.NONSENSE:
        return None
    return used_ms


def evict(context: Context, near: bytes, in_use: Container[bytes]) -> bool:
    """Forgets the longest unused of a few idle producers; returns whether there was one.

    Ids are random, so those that follow *near* are a sample. If the forgotten producer repeats a
    put, it is refused with PRODUCER_UNKNOWN, and not stored again.
    """
    key, space = keys.SPACE_PRODUCER + near, keys.SPACE_PRODUCER
    sample = list(islice(context.tx.scan(key, keys.after(space)), EVICT_SAMPLE))
    sample += islice(context.tx.scan(space, key), EVICT_SAMPLE - len(sample))
    idle_before_ms = context.now.ms - EVICT_IDLE_MS
    found = [
        (used_ms, key)
        for key, value in sample
        if (used_ms := used_ms_of(key, value)) is not None
        and used_ms <= idle_before_ms
        and key[keys.REST] not in in_use
    ]
    if not found:
        return False
    context.tx.delete(min(found)[1])
    context.wrote = True
    return True


def open_producer(context: Context, producer_id: bytes, resume: bool, count: int) -> Producer:
    """Returns the producer with that id, a new one unless *resume* is set.

    Raises:
        RequestError: PRODUCER_UNKNOWN, there is nothing to resume: the row is past its retention,
            or the store is another. PRODUCERS_EXHAUSTED. STORE_DAMAGED, its row is.
    """
    window = context.config.limits.put_window_messages
    found = load(context.tx, producer_id, window)
    if found is not None:
        return found
    if resume:
        raise RequestError(
            ErrorCode.PRODUCER_UNKNOWN,
            f"producer {producer_id.hex()} is not known here: its last use is longer ago than "
            f"{context.config.producer.retention_ms} ms, or this is another store",
        )
    if count >= context.config.producer.producers_max:
        raise RequestError(
            ErrorCode.PRODUCERS_EXHAUSTED,
            f"{count} producers are kept, at most {context.config.producer.producers_max}, and "
            "none of those looked at is idle: try again later, or raise producer.producers_max",
        )
    return Producer(producer_id, Inbox(window), context.now.ms)
