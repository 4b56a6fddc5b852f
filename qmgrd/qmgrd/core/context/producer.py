"""Sequenced producers. A producer may repeat a put, and the message is still stored only once.

A producer has a stable id and numbers its puts. The queue manager stores the window of the
producer: the commit id and the received ids above it. The queue manager also stores the refused
ids with their codes, and the assigned UIDs, until the producer has seen them. A refused id enters
the window like a stored id, so a repeated put receives the same answer. The row is written in the
same turn as the messages.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import CreditExceeded, ErrorCode, RequestError, name_of
from qmgr_protocol.window import Inbox, runs_of
from qmgrd.core.context import committed
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.value_checks import number, stored_ids, typed

EVICT_SAMPLE = 64
EVICT_IDLE_MS = 10 * 60_000
# Maximum number of runs of stamps of the latest puts. More runs exist only if answers arrive very
# late.
STAMP_RUNS_MAX = 128
_USER_AT = 7  # index of the user in a stored row, which ends before it if there is no user


@dataclass(slots=True)
class Producer:
    """The receiving end of a producer's stream.

    Invariant: ``refused`` contains only received ids above ``seen``.
    """

    producer_id: bytes
    inbox: Inbox
    used_ms: int = 0  # the store clock time of the last opening or commit
    seen: int = 0  # the highest id up to which the producer has received all answers
    refused: dict[int, int] = field(default_factory=dict)  # the error code of each refused id
    instance: int = 0  # the program instance that last opened the producer without resuming it
    # Runs of ids above ``seen``, in the format of Committed.
    stamps: list[list[int]] = field(default_factory=list)
    user: str = (
        ""  # owner: the only user who may open the producer; "" if it was created without a user
    )

    @property
    def key(self) -> bytes:
        """The key of the stored row."""
        return keys.SPACE_PRODUCER + self.producer_id

    def encode(self) -> bytes:
        """Returns the stored row."""
        # Mostly empty, and encoded in each turn in which the producer puts.
        ahead = runs_of(self.inbox.ahead) if self.inbox.ahead else []
        by_code: dict[int, list[int]] = {}
        for seq_id, code in self.refused.items():
            by_code.setdefault(code, []).append(seq_id)
        refused = [[code, runs_of(ids)] for code, ids in by_code.items()]
        fields = [
            self.inbox.commit_id,
            self.used_ms,
            self.seen,
            ahead,
            refused,
            self.instance,
            self.stamps,
        ]
        row: bytes = pack([*fields, self.user] if self.user else fields)
        return row

    def note_seen(self, seen: int) -> None:
        """Forgets the answers that the producer has seen."""
        if seen <= self.seen:
            return
        self.seen = min(seen, self.inbox.commit_id)
        if self.refused:
            self.refused = {i: code for i, code in self.refused.items() if i > self.seen}
        if self.stamps:
            self.stamps = [run for run in self.stamps if run[0] + run[2] > self.seen + 1]

    def note_stamps(self, first_id: int, timestamp: int, count: int) -> None:
        """Remembers the assigned UIDs until the producer has seen them."""
        committed.add_stamps(self.stamps, first_id, timestamp, count)
        if len(self.stamps) > STAMP_RUNS_MAX:
            del self.stamps[0]

    def check(self, first_id: int, count: int) -> None:
        """Checks that *count* ids from *first_id* up do not exceed the producer's window."""
        last_id = first_id + count - 1
        self.inbox.check(last_id)
        unseen = last_id - self.seen
        limit = 2 * self.inbox.window
        if unseen > limit:
            raise CreditExceeded("puts not marked as seen", unseen, limit)

    def answers(self, first_id: int, last_id: int) -> list[list[object]]:
        """Returns the refusals from *first_id* to *last_id*, in the format of Committed."""
        return [
            [seq_id, code, f"refused when it was first received: {name_of(code)}"]
            for seq_id, code in self.refused.items()
            if first_id <= seq_id <= last_id
        ]

    def stamps_of(self, first_id: int, last_id: int) -> list[list[int]]:
        """Returns the known stamps from *first_id* to *last_id*, in the format of Committed."""
        found = []
        for first, timestamp, count in self.stamps:
            start, end = max(first, first_id), min(first + count, last_id + 1)
            if start < end:
                found.append([start, timestamp + start - first, end - start])
        return found


def _stored_runs(runs: list[list[int]]) -> list[list[int]]:
    """Returns the stamps of a stored row after checking all numbers."""
    return [[number(x, "a stamp") for x in (run[0], run[1], run[2])] for run in runs]


def load(tx: Transaction, producer_id: bytes, window: int) -> Producer | None:
    """Returns the stored producer with the given id, or None.

    Raises:
        RowDamaged: The row of the producer is damaged.
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
        stamps, user = [*more, *([], "")[len(more) :]][:2]
        typed(str, user, "the user")
        return Producer(
            producer_id, inbox, used_ms, seen, codes, instance, _stored_runs(stamps), user
        )


class Use(NamedTuple):
    """The last use of a producer, and the user to whom it belongs, or ""."""

    used_ms: int
    user: str


def use_of(key: bytes, value: bytes) -> Use | None:
    """Returns the last use in a producer's stored row, or None if the row is damaged.

    A damaged row must not be evicted. Without the row, the producer would begin again, and repeated
    puts would be stored twice.
    """
    try:
        row = unpack(rows.unseal(key, value))
        used_ms = number(row[1], "the time of the last use")
        user = typed(str, row[_USER_AT], "the user") if len(row) > _USER_AT else ""
    except rows.NONSENSE:
        return None
    return Use(used_ms, user)


def evict(context: Context, near: bytes, in_use: Container[bytes]) -> bytes | None:
    """Evicts the longest unused producer of a sample of idle ones. Returns its id, or None.

    Ids are random, so the producers after *near* are a random sample. If the evicted producer
    repeats a put, the put is refused with PRODUCER_UNKNOWN and is not stored again.
    """
    key, space = keys.SPACE_PRODUCER + near, keys.SPACE_PRODUCER
    sample = list(islice(context.tx.scan(key, keys.after(space)), EVICT_SAMPLE))
    sample += islice(context.tx.scan(space, key), EVICT_SAMPLE - len(sample))
    idle_before_ms = context.now.ms - EVICT_IDLE_MS
    found = [
        (use.used_ms, key)
        for key, value in sample
        if (use := use_of(key, value)) is not None
        and use.used_ms <= idle_before_ms
        and key[keys.REST] not in in_use
    ]
    if not found:
        return None
    oldest = min(found)[1]
    context.tx.delete(oldest)
    context.wrote = True
    return oldest[keys.REST]


def open_producer(context: Context, producer_id: bytes, resume: bool, count: int) -> Producer:
    """Returns the producer with the given id. Creates the producer unless *resume* is set.

    Raises:
        RequestError: PRODUCER_UNKNOWN if *resume* is set and the producer does not exist: its
            retention has ended, or it is in another store. PRODUCERS_EXHAUSTED if the store has
            too many producers. STORE_DAMAGED if the row of the producer is damaged.
    """
    window = context.config.limits.put_window_messages
    found = load(context.tx, producer_id, window)
    if found is not None:
        return found
    if resume:
        raise unknown_error(context, producer_id)
    if count >= context.config.producer.producers_max:
        raise RequestError(
            ErrorCode.PRODUCERS_EXHAUSTED,
            f"the store has {count} producers, the limit is "
            f"{context.config.producer.producers_max}, and none of the sampled producers is idle; "
            "try again later, or raise producer.producers_max",
        )
    return Producer(producer_id, Inbox(window), context.now.ms)


def unknown_error(context: Context, producer_id: bytes) -> RequestError:
    """Returns the error PRODUCER_UNKNOWN."""
    return RequestError(
        ErrorCode.PRODUCER_UNKNOWN,
        f"producer {producer_id.hex()} is unknown: it was last used more than "
        f"{context.config.producer.retention_ms} ms ago, or in another store",
    )
