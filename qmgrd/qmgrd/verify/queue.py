"""The messages of a store. Each is complete, in its lane, counted, and found by its index rows.

    counters ── depth, delayed, bytes ──▶ entries ──▶ pieces of long records
                                          │   ▲
             in the table of origins a ───┘   └── UID index, correlation ids, groups, schedule,
             timestamp not below its own          notes: index.py, groups.py, schedule.py

Damage is reported once, without its consequences. A restart loses non-persistent messages: a job
removes them, and they are not counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.kv import Transaction
from qmgrd.verify.definitions import NONSENSE, Defined, unsealed
from qmgrd.verify.finding import Findings
from qmgrd.verify.groups import check_groups
from qmgrd.verify.history import check_history
from qmgrd.verify.index import IndexCheck, described
from qmgrd.verify.publications import SubscriptionReferences, check_publications
from qmgrd.verify.schedule import STEP_ROWS, check_schedule

KEY_BYTES = len(keys.message(0, 0, 0, 0))
BODY_ID_BYTES = 8
LANES = (keys.LANE_READY, keys.LANE_DELAYED, keys.LANE_GROUPED, keys.LANE_PARKED, keys.LANE_DAMAGED)
OF_A_QUEUE = (
    keys.SPACE_COUNTERS,
    keys.SPACE_MESSAGE,
    keys.SPACE_UID,
    keys.SPACE_ORIGIN,
    keys.SPACE_CORRELATION,
    keys.SPACE_GROUP,
    keys.SPACE_NOTE,
    keys.SPACE_GROUP_ROW,
    keys.SPACE_CHAIN,
    keys.SPACE_COMPLETE,
)


@dataclass
class Checked:
    """The results of the check of a store's messages."""

    messages: int = 0
    set_aside: int = 0  # the number of messages that the queue manager had already set aside
    bodies: set[bytes] = field(default_factory=set)  # the body ids of messages
    # The references that subscriptions hold.
    held: SubscriptionReferences = field(default_factory=SubscriptionReferences)


def check_messages(found: Findings, tx: Transaction, defined: Defined) -> Checked:
    """Checks entries, bodies, indexes and counters of all queues."""
    checked = Checked()
    remembered = check_schedule(found, tx, defined)
    for queue_id, name in sorted(defined.queues.items()):
        index = IndexCheck(found, tx, queue_id, name, remembered)
        lost = defined.lost.get(queue_id, [])
        QueueCheck(found, tx, queue_id, name, checked, index, lost).run()
    for space in OF_A_QUEUE:
        for queue_id in _queue_ids(tx, space):
            if queue_id not in defined.queues:
                _check_stray(found, tx, space, queue_id, defined, checked)
    _check_orphans(found, tx, checked)
    check_publications(found, tx, checked.held)
    check_history(found, tx)
    return checked


def _queue_ids(tx: Transaction, space: bytes) -> Iterator[int]:
    """Yields the ids of the queues that have rows in *space*, with one seek per queue."""
    start = space
    while (row := next(tx.scan(start, keys.after(space)), None)) is not None:
        prefix = row[0][keys.OF_QUEUE].ljust(keys.OF_QUEUE.stop, b"\0")
        queue_id = keys.queue_id_of(prefix)
        yield queue_id
        if queue_id > keys.PUBLICATIONS_ID:  # No id follows.
            return
        start = keys.after(prefix)


def _check_stray(
    found: Findings,
    tx: Transaction,
    space: bytes,
    queue_id: int,
    defined: Defined,
    checked: Checked,
) -> None:
    """Checks the rows of an undefined queue, which is being removed or has lost its definition."""
    prefix = keys.of_queue(space, queue_id)
    count = 0
    for key, value in tx.scan(prefix, keys.after(prefix)):
        count += 1
        if space == keys.SPACE_MESSAGE:
            entry = entries.decode(value)
            if entry.in_rows:
                checked.bodies.add(_body_id(entry))
            if entry.shared:
                _hold(checked.held, key)
    found.looked_at(count)
    if queue_id in defined.dropped or not defined.is_whole:
        return
    if space == keys.SPACE_COUNTERS:
        found.add("missing", prefix, f"the definition of queue id {queue_id} is missing")
    else:
        found.add("stray", prefix, f"{count} rows of queue id {queue_id}, which is not defined")


def _hold(held: SubscriptionReferences, key: bytes) -> None:
    """Records a reference to a publication, and whether the publication is parked."""
    arrival, queue_id = keys.place(key)[1], int.from_bytes(key[keys.QUEUE_ID], "big")
    held.references[arrival] += 1
    if key[keys.POSITION_AT] == keys.LANE_PARKED:
        held.parked[keys.parked(arrival, queue_id)] = key[keys.RANK]


def _check_orphans(found: Findings, tx: Transaction, checked: Checked) -> None:
    """Finds body pieces without a message that are not of an incomplete message."""
    orphans: dict[bytes, int] = {}
    count = 0
    marks = tx.scan(keys.SPACE_UNOWNED, keys.after(keys.SPACE_UNOWNED))
    checked.bodies.update(key[keys.REST] for key, _ in marks)
    for key, _ in tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY)):
        count += 1
        if count % STEP_ROWS == 0:
            found.looked_at(STEP_ROWS)
        body_id = key[keys.BODY_ID]
        if body_id not in checked.bodies:
            orphans[body_id] = orphans.get(body_id, 0) + 1
    found.looked_at(count % STEP_ROWS)
    for body_id, pieces in orphans.items():
        key = keys.SPACE_BODY + body_id
        found.add("pieces-orphan", key, f"{pieces} pieces of body {body_id.hex()} have no message")


@dataclass
class QueueTally:
    """The number of a queue's messages of each kind, as its counters have them."""

    depth: int = 0
    grouped: int = 0  # the part of ``depth`` that is in groups
    delayed: int = 0
    parked: int = 0
    size: int = 0
    volatile: int = 0
    volatile_delayed: int = 0
    volatile_bytes: int = 0
    volatile_from: int | None = None  # the first arrival number
    first: int | None = None
    last: int = 0

    def add(self, key: bytes, entry: entries.Entry) -> None:
        """Counts a message that was neither set aside nor lost."""
        if key[keys.POSITION_AT] == keys.LANE_PARKED:
            self.parked += 1
            return
        size, is_ready = entries.record_bytes(entry), key[keys.POSITION_AT] != keys.LANE_DELAYED
        self.depth += is_ready
        self.grouped += key[keys.POSITION_AT] == keys.LANE_GROUPED
        self.delayed += not is_ready
        self.size += size
        if entry.volatile:
            arrival = keys.place(key)[1]
            self.volatile += is_ready
            self.volatile_delayed += not is_ready
            self.volatile_bytes += size
            self.volatile_from = min(arrival, self.volatile_from or arrival)


class QueueCheck:
    """The check of one queue."""

    def __init__(
        self,
        found: Findings,
        tx: Transaction,
        queue_id: int,
        name: str,
        checked: Checked,
        index: IndexCheck,
        lost: list[tuple[int, int]],
    ) -> None:
        """Prepares the check of one queue.

        Args:
            lost: The ranges of arrivals whose non-persistent messages are lost.
        """
        self.id, self.name = queue_id, name
        self.seen = QueueTally()
        self._found, self._tx, self._checked = found, tx, checked
        self._index, self._lost = index, lost
        self._prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
        self._highest: dict[bytes, int] = {}
        # The ranges of *lost* that the counters still include.
        self._uncounted: list[tuple[int, int]] = []
        self._is_sound = True  # whether no message is damaged

    def run(self) -> None:
        """Checks all rows of the queue."""
        self._highest = dict(self._timestamps())
        counters = self._counters()
        self._index.begin(counters)
        count = 0
        for key, value in self._tx.scan(self._prefix, keys.after(self._prefix)):
            count += 1
            if count % STEP_ROWS == 0:
                self._found.looked_at(STEP_ROWS)
            self._check_entry(key, value)
        self._found.looked_at(count % STEP_ROWS)
        self._index.finish()
        check_groups(self._found, self._tx, self.id, self.name, self._index)
        if counters is not None:
            self._check_counters(counters)
        self._checked.messages += self.seen.depth + self.seen.delayed

    def _counters(self) -> Counters | None:
        """Returns the counters, or None if they are damaged, which was already reported."""
        try:
            counters = Counters.read(self._tx, self.id, self.name)
        except rows.RowDamaged:
            return None
        if counters.volatile or counters.volatile_delayed:
            # A start passes these ranges to the job. The counters change in the first turn that
            # writes.
            self._uncounted = [at for at in self._lost if at[1] >= counters.next_arrival]
        return counters

    def _timestamps(self) -> Iterator[tuple[bytes, int]]:
        """Yields the table of origins, with the highest possible timestamp for a damaged one."""
        prefix = keys.of_queue(keys.SPACE_ORIGIN, self.id)
        for key, _ in self._tx.scan(prefix, keys.after(prefix)):
            yield key[keys.POSITION_AT :], 1 << 64
        for key, row in unsealed(self._found, self._tx, prefix):
            yield key[keys.POSITION_AT :], int.from_bytes(row, "big")

    def _check_entry(self, key: bytes, value: bytes) -> None:
        is_key = len(key) == KEY_BYTES
        priority, arrival = keys.place(key) if is_key else (-1, 0)
        is_valid = 0 <= priority <= keys.PRIORITY_TOP
        if not is_valid or key[keys.POSITION_AT] not in LANES:
            self._found.add("key", key, f"a message of queue {self.name} is not in a valid lane")
            return
        entry = entries.decode(value)
        if entry.shared:
            _hold(self._checked.held, key)
        is_whole = not entry.in_rows or self._check_body(key, entry)
        if key[keys.POSITION_AT] == keys.LANE_DAMAGED:
            self._checked.set_aside += 1
            return
        seen = self.seen
        is_lost = entry.volatile and any(start <= arrival < stop for start, stop in self._lost)
        if not is_lost or any(start <= arrival < stop for start, stop in self._uncounted):
            seen.add(key, entry)
        else:
            # A lost message counts as grouped until it is removed.
            seen.grouped += key[keys.POSITION_AT] == keys.LANE_GROUPED
        seen.last = max(seen.last, arrival)
        seen.first = arrival if seen.first is None else min(seen.first, arrival)
        if not is_whole:
            self._skip(key)
        elif entry.flags == entries.UNREADABLE:
            self._damaged("entry", key, "the head of its entry is invalid")
        elif not entries.is_sound(entries.record(self._tx, entry)):
            self._damaged("record", key, "its checksum is wrong")
        else:
            self._index.check(key, entry, is_lost=is_lost)
            if not entry.shared:
                self._check_origin(key, entry)

    def _skip(self, key: bytes) -> None:
        self._is_sound = False
        self._index.skip(key)

    def _damaged(self, fault: str, key: bytes, what: str) -> None:
        self._skip(key)
        self._found.add(fault, key, f"{self._message(key)}: {what}")

    def _message(self, key: bytes) -> str:
        return described(key, self.name)

    def _check_body(self, key: bytes, entry: entries.Entry) -> bool:
        """Returns whether all pieces of a long message exist. Reports missing and extra pieces."""
        body_id = _body_id(entry)
        if body_id in self._checked.bodies:
            what = f"{self._message(key)} shares body {body_id.hex()} with another message"
            self._found.add("pieces-shared", key, what)
            return False
        self._checked.bodies.add(body_id)
        if key[keys.POSITION_AT] == keys.LANE_DAMAGED:
            return False
        prefix = keys.SPACE_BODY + body_id
        present = {piece for piece, _ in self._tx.scan(prefix, keys.after(prefix))}
        number, wanted = int.from_bytes(body_id, "big"), entries.body_rows(entry)
        missing = [n for n in range(wanted) if keys.body(number, n) not in present]
        if missing:
            what = f"{len(missing)} of {wanted} pieces are missing, the first is {missing[0]}"
            self._found.add("pieces", key, f"{self._message(key)}: {what}")
        elif len(present) > wanted:
            what = f"{len(present)} pieces, expected {wanted}"
            self._found.add("pieces-orphan", key, f"{self._message(key)}: {what}")
        return not missing

    def _check_origin(self, key: bytes, entry: entries.Entry) -> None:
        trailer = entries.uid_trailer(entry)
        highest = self._highest.get(trailer[records.UID_ORIGIN], -1)
        if highest < (timestamp := int.from_bytes(trailer[records.UID_TIMESTAMP], "big")):
            known = "nothing" if highest < 0 else str(highest)
            self._found.add(
                "origin",
                keys.of_queue(keys.SPACE_ORIGIN, self.id) + trailer[records.UID_ORIGIN],
                f"{self._message(key)} has timestamp {timestamp}, but the highest of its origin "
                f"is {known}",
            )

    def _check_counters(self, counters: Counters) -> None:
        """Checks the counters, except the number of bytes if messages are damaged."""
        key = keys.of_queue(keys.SPACE_COUNTERS, self.id)
        seen = self.seen
        counted = (counters.depth, counters.grouped, counters.delayed, counters.parked)
        is_depth = counted == (present := (seen.depth, seen.grouped, seen.delayed, seen.parked))
        if not is_depth:
            what = f"counts {_counts_text(counted)}, but has {_counts_text(present)}"
            self._found.add("depth", key, f"queue {self.name} {what}")
        if counters.bytes != seen.size and self._is_sound and is_depth:
            what = f"queue {self.name} counts {counters.bytes} bytes, but has {seen.size}"
            self._found.add("bytes", key, what)
        self._check_volatile(key, counters)
        self._check_sums(key, counters)
        if counters.unindexed != (unindexed := self._index.unindexed):
            what = f"counts {counters.unindexed} messages without an index row, but has {unindexed}"
            self._found.add("unindexed", key, f"queue {self.name} {what}")
        if seen.last >= counters.next_arrival:
            what = f"message {seen.last} exists, but the next one is {counters.next_arrival}"
            self._found.add("arrival", key, f"queue {self.name}: {what}")
        self._check_outbox(counters.next_arrival)

    def _check_volatile(self, key: bytes, counters: Counters) -> None:
        """Checks the counters of non-persistent messages."""
        if not self._is_sound:
            return  # The flag for non-persistence may be damaged.
        seen = self.seen
        counted = (counters.volatile, counters.volatile_delayed, counters.volatile_bytes)
        present = (seen.volatile, seen.volatile_delayed, seen.volatile_bytes)
        if counted != present:
            what = f"counts {_volatile_text(counted)}, but has {_volatile_text(present)}"
            self._found.add("volatile", key, f"queue {self.name} {what}")
        elif seen.volatile_from is not None and seen.volatile_from < counters.volatile_from:
            what = f"the first non-persistent message is {seen.volatile_from}"
            self._found.add(
                "volatile",
                key,
                f"queue {self.name}: {what}, but its counters start at {counters.volatile_from}",
            )

    def _check_sums(self, key: bytes, counters: Counters) -> None:
        gone = counters.acked + counters.purged + counters.damaged + counters.expired
        gone += counters.dead + counters.moved + counters.lost
        present = counters.depth + counters.delayed + counters.parked
        if counters.puts - gone != present or counters.puts != counters.fast + counters.slow:
            what = (
                f"queue {self.name} counts {present} messages of {counters.puts} put "
                f"({counters.fast} fast, {counters.slow} slow), {gone} removed"
            )
            self._found.add("sums", key, what)

    def _check_outbox(self, next_arrival: int) -> None:
        """Checks the sending window of a link against its pending messages."""
        key = keys.of_queue(keys.SPACE_LINK_OUTBOX, self.id)
        try:
            row = rows.find(self._tx, key)
            commit_id = 0 if row is None else int(unpack(row)[0])
        except NONSENSE:
            return  # The fault was already reported.
        if commit_id >= next_arrival:
            what = f"id {commit_id} is committed, but the next is {next_arrival}"
            self._found.add("window", key, f"queue {self.name}: {what}")
        elif self.seen.first is not None and self.seen.first <= commit_id:
            what = f"message {self.seen.first} is pending, but ids up to {commit_id} are committed"
            self._found.add("window", key, f"queue {self.name}: {what}")


def _body_id(entry: entries.Entry) -> bytes:
    return entry.rest[:BODY_ID_BYTES]


def _counts_text(counts: tuple[int, int, int, int]) -> str:
    depth, grouped, delayed, parked = counts
    also = f", {parked} parked" if parked else ""
    return f"{depth} messages ({grouped} in groups) and {delayed} delayed{also}"


def _volatile_text(counts: tuple[int, int, int]) -> str:
    ready, delayed, size = counts
    return f"{ready} non-persistent messages and {delayed} delayed of {size} bytes"
