"""The messages of a store: each whole, in its place, counted, and findable by its UID.

    counters ── depth, bytes ──▶ entries ──▶ pieces of long records
                                 ▲     │
                                 │     └── each has its row in the UID index, and in the table of
                                 └──────── origins a timestamp not below its own
                                    index: each row names an entry that has that UID

Damage is told once: what follows from a message that is damaged is not told again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from qmgr_protocol.codec import unpack
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core import row as rows
from qmgrd.core.counters import Counters
from qmgrd.core.dedup import OriginTable
from qmgrd.core.kv import Transaction
from qmgrd.ops.finding import Findings
from qmgrd.ops.verify_definitions import NONSENSE, Defined, unsealed

KEY_BYTES = len(keys.message(0, 0, 0, 0))
STEP_ROWS = 10_000  # between two looks at how far it is
BODY_ID_BYTES = 8


@dataclass
class Checked:
    """What was seen of the messages of a store."""

    messages: int = 0
    set_aside: int = 0  # earlier, by the queue manager
    bodies: set[bytes] = field(default_factory=set)  # ids of those that messages have


def check_messages(found: Findings, tx: Transaction, defined: Defined) -> Checked:
    """Check entries, bodies, indexes and counters of all queues."""
    checked = Checked()
    for queue_id, name in sorted(defined.queues.items()):
        QueueCheck(found, tx, queue_id, name, checked).run()
    for space in (keys.SPACE_COUNTERS, keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_ORIGIN):
        for queue_id in _queue_ids(tx, space):
            if queue_id not in defined.queues:
                _check_stray(found, tx, space, queue_id, defined, checked)
    _check_orphans(found, tx, checked)
    return checked


def _queue_ids(tx: Transaction, space: bytes) -> Iterator[int]:
    """Yield the ids of the queues that have rows in *space*, by a seek for each."""
    start = space
    while (row := next(tx.scan(start, keys.after(space)), None)) is not None:
        prefix = row[0][:5].ljust(5, b"\0")
        yield int.from_bytes(prefix[1:], "big")
        if prefix[1:] == b"\xff" * 4:
            return
        start = keys.after(prefix)


def _check_stray(
    found: Findings, tx: Transaction, space: bytes, queue_id: int, defined: Defined,
    checked: Checked,
) -> None:  # fmt: skip
    """Look at what a queue has that is not defined: it is being removed, or its row is lost."""
    prefix = keys.of_queue(space, queue_id)
    count = 0
    for _, value in tx.scan(prefix, keys.after(prefix)):
        count += 1
        if space == keys.SPACE_MESSAGE:
            entry = entries.decode(value)
            if entry.in_rows:
                checked.bodies.add(_body_id(entry))
    found.looked_at(count)
    if queue_id in defined.dropped or not defined.is_whole:
        return
    if space == keys.SPACE_COUNTERS:
        found.add("missing", prefix, f"the definition of queue id {queue_id} is missing")
    else:
        found.add("stray", prefix, f"{count} rows of queue id {queue_id}, which is not defined")


def _check_orphans(found: Findings, tx: Transaction, checked: Checked) -> None:
    """Find the pieces that belong to no message."""
    orphans: dict[bytes, int] = {}
    count = 0
    for key, _ in tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY)):
        count += 1
        if count % STEP_ROWS == 0:
            found.looked_at(STEP_ROWS)
        body_id = key[1 : 1 + BODY_ID_BYTES]
        if body_id not in checked.bodies:
            orphans[body_id] = orphans.get(body_id, 0) + 1
    found.looked_at(count % STEP_ROWS)
    for body_id, pieces in orphans.items():
        key = keys.SPACE_BODY + body_id
        found.add("pieces-orphan", key, f"{pieces} pieces of body {body_id.hex()}, of no message")


class QueueCheck:
    """The check of one queue. ``depth`` and ``size`` are of the messages that can be got."""

    def __init__(
        self, found: Findings, tx: Transaction, queue_id: int, name: str, checked: Checked
    ) -> None:
        self.id, self.name = queue_id, name
        self.depth = self.size = self.last_arrival = 0
        self.first_arrival: int | None = None
        self._found, self._tx, self._checked = found, tx, checked
        self._prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
        self._origins = OriginTable(queue_id)
        self._highest: dict[bytes, int] = {}
        self._indexed = 0  # messages to which their row of the UID index leads
        self._astray: set[bytes] = set()  # rows of the UID index that lead elsewhere
        self._unsound: set[bytes] = set()  # positions of damaged messages

    def run(self) -> None:
        """Check all rows of the queue."""
        self._highest = dict(self._timestamps())
        count = 0
        for key, value in self._tx.scan(self._prefix, keys.after(self._prefix)):
            count += 1
            if count % STEP_ROWS == 0:
                self._found.looked_at(STEP_ROWS)
            self._check_entry(key, value)
        self._found.looked_at(count % STEP_ROWS)
        self._check_index()
        self._check_counters()
        self._checked.messages += self.depth

    def _timestamps(self) -> Iterator[tuple[bytes, int]]:
        """Yield the table of origins. What rotted in it counts as the highest there can be."""
        prefix = keys.of_queue(keys.SPACE_ORIGIN, self.id)
        for key, _ in self._tx.scan(prefix, keys.after(prefix)):
            yield key[5:], 1 << 64
        for key, row in unsealed(self._found, self._tx, prefix):
            yield key[5:], int.from_bytes(row, "big")

    def _check_entry(self, key: bytes, value: bytes) -> None:
        is_key = len(key) == KEY_BYTES
        priority, arrival = keys.place(key) if is_key else (-1, 0)
        is_there = 0 <= priority <= keys.PRIORITY_TOP
        if not is_there or key[5] not in (keys.LANE_READY, keys.LANE_DAMAGED):
            self._found.add("key", key, f"a message of queue {self.name} lies in no lane")
            return
        entry = entries.decode(value)
        is_whole = not entry.in_rows or self._check_body(key, entry)
        if key[5] == keys.LANE_DAMAGED:
            self._checked.set_aside += 1
            return
        self.depth += 1
        self.size += entries.record_bytes(entry)
        self.last_arrival = max(self.last_arrival, arrival)
        if self.first_arrival is None or arrival < self.first_arrival:
            self.first_arrival = arrival
        if not is_whole:
            self._unsound.add(key[5:])
        elif entry.flags == entries.UNREADABLE:
            self._damaged("entry", key, "its head makes no sense")
        elif not entries.sound(entries.record(self._tx, entry)):
            self._damaged("record", key, "its checksum is wrong")
        else:
            self._check_uid(key, entry)

    def _damaged(self, fault: str, key: bytes, what: str) -> None:
        self._unsound.add(key[5:])
        self._found.add(fault, key, f"{self._message(key)}: {what}")

    def _message(self, key: bytes) -> str:
        priority, arrival = keys.place(key)
        aside = ", set aside," if key[5] == keys.LANE_DAMAGED else ""
        return f"message {arrival} of priority {priority}{aside} on queue {self.name}"

    def _check_body(self, key: bytes, entry: entries.Entry) -> bool:
        """Return whether all pieces of a long message are there, and no other's."""
        body_id = _body_id(entry)
        if body_id in self._checked.bodies:
            what = f"{self._message(key)} has the body of another, {body_id.hex()}"
            self._found.add("pieces-shared", key, what)
            return False
        self._checked.bodies.add(body_id)
        if key[5] == keys.LANE_DAMAGED:
            return False
        prefix = keys.SPACE_BODY + body_id
        is_there = {piece for piece, _ in self._tx.scan(prefix, keys.after(prefix))}
        number, wanted = int.from_bytes(body_id, "big"), entries.body_rows(entry)
        missing = [n for n in range(wanted) if keys.body(number, n) not in is_there]
        if missing:
            what = f"{len(missing)} of {wanted} pieces are missing, the first is {missing[0]}"
            self._found.add("pieces", key, f"{self._message(key)}: {what}")
        elif len(is_there) > wanted:
            what = f"{len(is_there)} pieces, {wanted} belong to it"
            self._found.add("pieces-orphan", key, f"{self._message(key)}: {what}")
        return not missing

    def _check_uid(self, key: bytes, entry: entries.Entry) -> None:
        index_key = self._index_key(entry)
        position = self._tx.get(index_key)
        if position is None:
            what = f"{self._message(key)} is not in the UID index"
            self._found.add("index-missing", index_key, what)
        elif position != key[5:]:
            what = f"the UID index has {self._message(key)} elsewhere, at {position.hex()}"
            self._found.add("index-wrong", index_key, what)
            self._astray.add(index_key)
        else:
            self._indexed += 1
        trailer = entries.uid_trailer(entry)
        highest = self._highest.get(trailer[:-8], -1)
        if highest < (timestamp := int.from_bytes(trailer[-8:], "big")):
            known = "nothing" if highest < 0 else str(highest)
            self._found.add(
                "origin", keys.of_queue(keys.SPACE_ORIGIN, self.id) + trailer[:-8],
                f"{self._message(key)} has timestamp {timestamp}, its origin's highest is {known}",
            )  # fmt: skip

    def _index_key(self, entry: entries.Entry) -> bytes:
        return self._origins.index_key(entries.uid_trailer(entry), entry.target.encode())

    def _check_index(self) -> None:
        """Find the rows of the UID index that name no message, or another.

        Each message of ``_indexed`` has a row of its own: if there are no more rows, all is well.
        """
        prefix = keys.of_queue(keys.SPACE_UID, self.id)
        count = sum(1 for _ in self._tx.scan(prefix, keys.after(prefix)))
        self._found.looked_at(count)
        if count == self._indexed:
            return
        for key, position in self._tx.scan(prefix, keys.after(prefix)):
            if position in self._unsound or key in self._astray:
                continue  # The UID may be what rotted; or told of the message already.
            value = self._tx.get(self._prefix + position)
            if value is None:
                what = f"names {position.hex()}, where no message is"
            elif self._index_key(entries.decode(value)) != key:
                what = f"names {self._message(self._prefix + position)}, which has another UID"
            else:
                continue
            self._found.add("index-orphan", key, f"a row of the UID index of {self.name} {what}")

    def _check_counters(self) -> None:
        """Hold the counters against what was seen. Rot of messages is known to miscount bytes."""
        key = keys.of_queue(keys.SPACE_COUNTERS, self.id)
        try:
            counters = Counters.read(self._tx, self.id, self.name)
        except rows.RowDamaged:
            return  # Told already.
        if counters.depth != self.depth:
            what = f"queue {self.name} counts {counters.depth} messages, {self.depth} are there"
            self._found.add("depth", key, what)
        if counters.bytes != self.size and not self._unsound and counters.depth == self.depth:
            what = f"queue {self.name} counts {counters.bytes} bytes, {self.size} are there"
            self._found.add("bytes", key, what)
        gone = counters.acked + counters.purged + counters.damaged
        if counters.puts - gone != counters.depth or counters.puts != counters.fast + counters.slow:
            what = (
                f"queue {self.name} counts {counters.depth} messages of {counters.puts} put "
                f"({counters.fast} fast, {counters.slow} slow), {gone} gone"
            )
            self._found.add("sums", key, what)
        if self.last_arrival >= counters.next_arrival:
            what = f"message {self.last_arrival} is there, yet the next {counters.next_arrival}"
            self._found.add("arrival", key, f"queue {self.name}: {what}")
        self._check_outbox(counters.next_arrival)

    def _check_outbox(self, next_arrival: int) -> None:
        """Hold the sending window of a link against what waits for it."""
        key = keys.of_queue(keys.SPACE_LINK_OUTBOX, self.id)
        try:
            row = rows.find(self._tx, key)
            commit_id = 0 if row is None else int(unpack(row)[0])
        except NONSENSE:
            return  # Told already.
        if commit_id >= next_arrival:
            what = f"id {commit_id} is committed, yet the next is {next_arrival}"
            self._found.add("window", key, f"queue {self.name}: {what}")
        elif self.first_arrival is not None and self.first_arrival <= commit_id:
            what = f"message {self.first_arrival} waits, yet ids up to {commit_id} are committed"
            self._found.add("window", key, f"queue {self.name}: {what}")


def _body_id(entry: entries.Entry) -> bytes:
    return entry.rest[:BODY_ID_BYTES]
