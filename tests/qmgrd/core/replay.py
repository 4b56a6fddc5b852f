"""A replay of history, transaction by transaction, compared with the stored messages.

The replay reads the rows of a transaction as soon as the transaction is durable. For queues with
accounts:

    accounts_are_true      events of arrival and departure match the changes of the store
    accounts_are_possible  each event can happen to a message in that state
    accounts_agree         UID, size, priority and counters of a message equal the earlier values
    accounts_are_wanted    no other queue has accounts
    rows_are_in_line       rows are numbered without a gap, and are deleted at the front
    rows_are_kept          until all cursors have passed them, except cursors that count as dropped

If accounts are turned on or off, or rows were deleted before they were read, the replay begins
again with the stored messages. A crash only ends leases and forgets deliveries that were not
stored.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from qmgr_config.model import Config
from qmgr_protocol import history as wire
from qmgr_protocol.codec import unpack
from qmgrd.core.catalogue.attributes import bounds
from qmgrd.core.catalogue.system import AUDIT
from qmgrd.core.catalogue.templates import Template, Templates
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.history import History
from qmgrd.core.queue.queue import Queue
from tests.qmgrd.core.past import COMES, GOES, Told, tell
from tests.sim.ledger import require
from tests.sim.store import Change

Place = tuple[int, int]  # queue id and arrival
KINDS = {name: kind for kind, name in enumerate(wire.EVENTS)}
_AT_REST = {wire.AVAILABLE, wire.EXPIRED, wire.MOVED, wire.TRANSFERRED, wire.LOST}
_BY_LANE = {
    keys.LANE_DELAYED: wire.RETURNED,
    keys.LANE_PARKED: wire.PARKED,
    keys.LANE_DAMAGED: wire.DAMAGED,
}
_FROM_LANE = {keys.LANE_DELAYED: wire.AVAILABLE, keys.LANE_PARKED: wire.REPUBLISHED}
_REMOTE = ("remote", "alias", "proxy")


class Known(NamedTuple):
    """A queue that stores messages."""

    name: str
    kind: str
    accounts: bool
    is_deleted: bool = False
    row: dict[str, Any] = {}  # noqa: RUF012 - as it is defined


class Stay:
    """A message that is on a queue according to the history. None means that a value is unknown."""

    __slots__ = ("counts", "is_leased", "outlived", "priority", "size", "uid", "was_handed")

    def __init__(self, told: Told | None = None) -> None:
        self.uid = told.message_id if told else None
        self.size = told.size if told else None
        self.priority = told.priority if told else None
        self.counts: tuple[int, int] | None = (0, 0) if told else None
        self.is_leased: bool | None = False if told else None
        self.was_handed = self.outlived = told is None  # The value is unknown after a crash.


class Replay:
    """The history of one store. Invariant: ``there`` has the messages that the accounts report."""

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self.config = config
        self.queues: dict[int, Known] = {}
        self.templates = Templates()
        self.there: dict[Place, Stay] = {}
        self.ever: set[str] = set()  # UIDs of all messages ever put here
        # peer and UID of each transfer that has not been checked yet
        self.transferred: list[tuple[str, str]] = []
        self.rows: dict[int, bytes] = {}  # all rows that have ever existed, by number
        self.cursors: dict[str, dict[str, int]] = {}
        self.first = self.next = 1
        self.dropped = self.size = 0
        self.is_whole = True  # True if the history covers all arrivals on all queues
        # A session may have received a message at the same place before the store was restored, and
        # then proves this by the number of its lease.
        self.is_restored = False
        self.may_alter = False  # Accounts may be turned off just before a queue is deleted.
        self.events = 0

    def durable(self, changes: list[Change], stored: Any) -> None:
        """Checks a transaction that left *stored*, a sorted mapping of all rows."""
        new: list[tuple[int, bytes]] = []
        gone: list[int] = []
        anew: set[int] = set()
        messages: list[Change] = []
        self._templates(changes, anew)
        for change in changes:
            space = change.key[:1]
            if space == keys.SPACE_MESSAGE:
                messages.append(change)
            elif space == keys.SPACE_HISTORY:
                self._row(change, new, gone)
            elif space == keys.SPACE_CURSOR:
                self._cursor(change)
            elif space == keys.SPACE_QUEUE:
                self._queue(change, anew)
            elif space == keys.SPACE_JOB and change.new is not None:
                self._job(change, anew)
        if self._in_line(sorted(new), sorted(gone), stored):
            anew |= self.queues.keys()  # Some rows were deleted before any cursor had read them.
        told = [one for seq, data in sorted(new) for one in tell(seq, data)]
        self._judge(told, messages, anew)
        for queue_id in anew:
            self._begin_anew(queue_id, stored)

    def _row(self, change: Change, new: list[tuple[int, bytes]], gone: list[int]) -> None:
        seq = int.from_bytes(change.key[1:], "big")
        if change.new is None:
            gone += [seq] if change.old is not None else []
            return
        require(change.old is None, "rows_are_in_line", f"{self.name}: row {seq} is written again")
        new.append((seq, rows.unseal(change.key, change.new)))

    def _in_line(self, new: list[tuple[int, bytes]], gone: list[int], stored: Any) -> bool:
        """Checks the numbers of rows; returns whether rows were both added and deleted."""
        state = stored.get(keys.HISTORY)
        if state is None:
            require(not new, "rows_are_in_line", f"{self.name}: rows without a state row")
            return False
        first, next_, size, dropped = keys.HISTORY_ROW.unpack(rows.unseal(keys.HISTORY, state))
        fact = f"{self.name}: {self.first} to {self.next}, now {first} to {next_}"
        fact += f", new {[seq for seq, _ in new]}, gone {gone}"
        seen = [seq for seq, _ in new]
        require(gone == [*range(self.first, min(first, self.next))], "rows_are_in_line", fact)
        require(seen == [*range(max(self.next, first), next_)], "rows_are_in_line", fact)
        is_hidden: bool = first > self.next
        has_all = [cursor["position"] for cursor in self.cursors.values()] or [self.first - 1]
        excused = dropped > self.dropped or first - 1 <= min(has_all)
        require(excused, "rows_are_kept", f"{fact}, cursors {self.cursors}")
        self.first, self.next, self.dropped = first, next_, dropped
        self.rows.update(new)
        self.size += sum(len(data) for _, data in new) - sum(len(self.rows[seq]) for seq in gone)
        require(self.size == size, "rows_are_in_line", f"{fact}, {size} bytes, not {self.size}")
        return is_hidden

    def _cursor(self, change: Change) -> None:
        name = change.key[1:].decode()
        if change.new is None:
            self.cursors.pop(name, None)
            return
        before = self.cursors.get(name)
        now = self.cursors[name] = unpack(rows.unseal(change.key, change.new))
        fact = f"{self.name}: cursor {name}: {now} after {before}"
        is_on = before is None or all(now[key] >= before[key] for key in ("position", "lost"))
        require(is_on, "rows_are_kept", fact)

    def _queue(self, change: Change, anew: set[int]) -> None:
        name = change.key[1:].decode()
        old, new = (
            None if value is None else unpack(rows.unseal(change.key, value))
            for value in (change.old, change.new)
        )
        if (
            old is not None
            and old["kind"] not in _REMOTE
            and old != new
            and (new is None or new["queue_id"] != old["queue_id"])
        ):
            known = self.queues[old["queue_id"]]
            self.queues[old["queue_id"]] = known._replace(is_deleted=True)
            old = None
        if new is None or new["kind"] in _REMOTE:
            return
        accounts = self._is_kept(name, new)
        self.queues[new["queue_id"]] = Known(name, new["kind"], accounts, row=new)
        self.is_whole = self.is_whole and (accounts or name == AUDIT)
        if old is not None and (old == new or old.get("accounting") != new.get("accounting")):
            anew.add(new["queue_id"])  # The setting may have changed twice in between.

    def _is_kept(self, name: str, row: dict[str, Any]) -> bool:
        if name == AUDIT:
            return False  # No default and no template applies to it.
        found = self.templates.of(name) if row["kind"] == "local" else None
        held = row if found is None else found.attributes | row
        is_on: bool = bounds(self.config, held).accounting == "on"
        return is_on

    def _templates(self, changes: list[Change], anew: set[int]) -> None:
        """Tracks the templates, which decide which local queues keep accounts."""
        for change in changes:
            if not change.key.startswith(keys.SPACE_TEMPLATE):
                continue
            pattern = change.key[1:].decode()
            if change.new is not None:
                row = unpack(rows.unseal(change.key, change.new))
                self.templates.add(Template(pattern, row))
            elif change.old is not None:
                self.templates.remove(pattern)
            for queue_id, known in self.queues.items():
                if known.kind == "local" and not known.is_deleted:
                    accounts = self._is_kept(known.name, known.row)
                    self.queues[queue_id] = known._replace(accounts=accounts)
                    anew.add(queue_id)

    def _job(self, change: Change, anew: set[int]) -> None:
        assert change.new is not None
        row = unpack(rows.unseal(change.key, change.new))
        known = self.queues.get(row["queue_id"])
        if row["kind"] != "drop" or known is None:
            return
        if known.accounts != row["accounts"] and self.may_alter:
            self.queues[row["queue_id"]] = known._replace(accounts=row["accounts"])
            anew.add(row["queue_id"])

    def _begin_anew(self, queue_id: int, stored: Any) -> None:
        for place in [place for place in self.there if place[0] == queue_id]:
            del self.there[place]
        if not self.queues[queue_id].accounts:
            return
        start = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
        for key in stored.irange(start, keys.after(start), inclusive=(True, False)):
            self.there[queue_id, keys.place(key)[1]] = Stay()

    def _judge(self, told: list[Told], messages: Iterable[Change], anew: set[int]) -> None:
        followed = {
            queue_id
            for queue_id, known in self.queues.items()
            if known.accounts and queue_id not in anew
        }
        before: dict[Place, int] = {}
        after: dict[Place, int] = {}
        for change in messages:
            queue_id = int.from_bytes(change.key[1 : keys.POSITION_AT], "big")
            if queue_id in followed:
                place = queue_id, keys.place(change.key)[1]
                if change.old is not None:
                    before[place] = change.key[keys.POSITION_AT]
                if change.new is not None:
                    after[place] = change.key[keys.POSITION_AT]
        lanes = dict(before)
        kinds: defaultdict[Place, set[int]] = defaultdict(set)
        was_there: dict[Place, bool] = {}
        for one in told:
            self.events += 1
            place, kind = (one.queue_id, one.arrival), KINDS[one.event]
            self._note(one, kind)
            if one.queue_id not in followed:
                wanted = one.queue_id in anew or one.queue_id not in self.queues
                require(wanted, "accounts_are_wanted", f"{self.name}: {one}")
                continue
            was_there.setdefault(place, place in self.there)
            kinds[place].add(kind)
            self._happened(one, kind, place, lanes)
        for place in {*before, *after, *was_there}:
            is_changed = place in before or place in after
            is_there = place in after if is_changed else was_there[place]
            fact = f"{self.name}: {place} of {self.queues[place[0]]}, stored in lane "
            fact += f"{before.get(place)} and now {after.get(place)}, events "
            fact += f"{sorted(wire.EVENTS[kind] for kind in kinds[place])}"
            require(is_there == (place in self.there), "accounts_are_true", fact)
            if place in before and place in after and before[place] != after[place]:
                _moved(before[place], after[place], kinds[place], fact)

    def _note(self, one: Told, kind: int) -> None:
        """Remembers values to check against the histories of other queue managers."""
        if kind in COMES:
            self.ever.add(one.message_id)
        elif kind == wire.TRANSFERRED:
            self.transferred.append((one.peer, one.message_id))

    def _happened(self, one: Told, kind: int, place: Place, lanes: dict[Place, int]) -> None:
        """Checks an event against the known state of its message, and updates that state."""
        fact = f"{self.name}: {one}"
        if kind in COMES:
            is_published = self.queues[place[0]].kind == "publications"
            right = wire.PUBLISHED if is_published else wire.PUT
            require(kind == right, "accounts_are_possible", fact)
            require(place not in self.there, "accounts_are_true", f"arrived twice, {fact}")
            require((one.delivered, one.failed) == (0, 0), "accounts_agree", fact)
            self.there[place] = Stay(one)
            # Another lane is possible, because the unit's delay may be over at its commit.
            lanes[place] = keys.LANE_DELAYED
            return
        stay = self.there.get(place)
        require(stay is not None, "accounts_are_true", f"does not exist, {fact}")
        assert stay is not None
        _agrees(stay, one, kind, fact)
        self._is_possible(stay, one, kind, lanes.get(place), fact)
        if kind == wire.DELIVERED:
            stay.is_leased = stay.was_handed = True
        elif kind in (wire.RETURNED, wire.PARKED, wire.DAMAGED):
            stay.is_leased = False
        if kind == wire.PARKED:
            lanes[place] = keys.LANE_PARKED
        if kind in GOES:
            del self.there[place]

    def _is_possible(self, stay: Stay, one: Told, kind: int, lane: int | None, fact: str) -> None:
        known, fact = self.queues[one.queue_id], f"{fact}, in lane {lane}"
        if kind == wire.DELIVERED:
            can = not stay.is_leased and known.kind in ("local", "subscription")
        elif kind == wire.RETURNED:
            can = stay.is_leased is not False
        elif kind == wire.SETTLED:
            may_prove = stay.outlived or self.is_restored
            can = stay.was_handed or may_prove or known.kind == "publications"
        elif kind in _AT_REST:
            can = not stay.is_leased
        elif kind == wire.REMOVED:
            can = not stay.is_leased or known.is_deleted
        else:
            can = True
        if kind == wire.AVAILABLE:
            can = can and lane == keys.LANE_DELAYED
        elif kind == wire.REPUBLISHED:
            can = can and lane == keys.LANE_PARKED
        elif kind == wire.LOST:
            can = can and stay.outlived
        require(can, "accounts_are_possible", fact)

    def stopped(self, *, clean: bool) -> None:
        """Records that the process has ended."""
        for place, stay in self.there.items():
            fact = f"{self.name}: {place} was leased at a clean stop"
            is_open = stay.is_leased and not self.queues[place[0]].is_deleted
            require(not (clean and is_open), "accounts_are_possible", fact)
            stay.is_leased = False
            stay.outlived = True

    def put_back(self, stored: Any) -> None:
        """Begins again with a store that was restored from a backup."""
        self.is_restored = True
        self.queues.clear()
        self.there.clear()
        self.is_whole = False
        for key in stored.irange(keys.SPACE_QUEUE, keys.after(keys.SPACE_QUEUE)):
            self._queue(Change(key, None, stored[key]), set())
        for queue_id in self.queues:
            self._begin_anew(queue_id, stored)
        state = stored.get(keys.HISTORY)
        self.first, self.next, self.size, self.dropped = 1, 1, 0, 0
        if state is not None:
            row = keys.HISTORY_ROW.unpack(rows.unseal(keys.HISTORY, state))
            self.first, self.next, self.size, self.dropped = row
        self.rows = {
            int.from_bytes(key[1:], "big"): rows.unseal(key, stored[key])
            for key in stored.irange(keys.SPACE_HISTORY, keys.after(keys.SPACE_HISTORY))
        }
        self.cursors = {
            key[1:].decode(): unpack(rows.unseal(key, stored[key]))
            for key in stored.irange(keys.SPACE_CURSOR, keys.after(keys.SPACE_CURSOR))
        }
        self.is_whole = False

    def look(self, history: History, queues: Iterable[Queue]) -> None:
        """Checks the deliveries in the history and in memory against the leases."""
        handed = defaultdict[int, set[int]](set)
        for row in wire.encode(0, 0, history._pending):
            for one in tell(0, row):
                fact = f"{self.name}: {one} is not stored"
                require(one.event == "delivered", "accounts_are_true", fact)
                handed[one.queue_id].add(one.arrival)
        unknown = set()
        for (queue_id, arrival), stay in self.there.items():
            if stay.is_leased:
                handed[queue_id].add(arrival)
            elif stay.is_leased is None:
                unknown.add((queue_id, arrival))
        for queue in queues:
            known = self.queues.get(queue.id)
            if known is None or not known.accounts:
                continue
            differ = {
                arrival
                for arrival in handed[queue.id] ^ set(queue.leases)
                if (queue.id, arrival) not in unknown
            }
            fact = f"{self.name}: handed out by history or in fact alone: {sorted(differ)[:9]}"
            require(not differ, "accounts_are_true", f"{fact} of {known}")


def _moved(before: int, after: int, kinds: set[int], fact: str) -> None:
    """Checks an event against the lanes of its message before and after the event."""
    wanted = _BY_LANE.get(after, _FROM_LANE.get(before))
    require(wanted is None or wanted in kinds, "accounts_are_true", fact)


def _agrees(stay: Stay, one: Told, kind: int, fact: str) -> None:
    """Checks an event against earlier events of the same message."""
    is_rotten = kind == wire.DAMAGED or one.size is None
    for before, now in ((stay.uid, one.message_id), (stay.size, one.size)):
        same = None in (before, now) or before == now or is_rotten
        require(same, "accounts_agree", f"{fact}, not {before}")
    same = stay.priority in (None, one.priority)
    require(same, "accounts_agree", f"{fact}, not priority {stay.priority}")
    if kind == wire.REPUBLISHED:
        stay.counts = (0, 0)
    if one.delivered is None or one.failed is None:
        return
    counts = one.delivered, one.failed
    if stay.counts is not None:
        more = [now - before for now, before in zip(counts, stay.counts, strict=True)]
        may_rise = kind in (wire.RETURNED, wire.DEAD_LETTERED, wire.PARKED)
        can = all(0 <= rise <= may_rise for rise in more)
        require(can, "accounts_agree", f"{fact}, counts {stay.counts} before")
    stay.counts = counts
