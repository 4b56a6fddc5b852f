"""Checks each transaction at the instant it becomes durable. This is the first half of watch.py.

All messages of a transaction are judged together, because a message may move from one queue to
another. fate.py determines why a message leaves its queue.
"""

from collections import Counter

from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import ErrorCode, name_of
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue import notes
from qmgrd.core.queue.group.row import GroupRow
from tests.sim import fate, groups, order
from tests.sim.ledger import DEAD_LETTERS, Ledger, Put, Unit, described, is_watched, require
from tests.sim.node import Node
from tests.sim.store import Change
from tests.sim.view import Handle, Held, View

_LANES = (*keys.LANES_READY, keys.LANE_DELAYED, keys.LANE_PARKED)
Place = tuple[int, bytes]  # lane, and the entry in it


class Durable:
    """All views, and the invariants of stored data."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.views: dict[str, View] = {}
        # Maps a stream and an id to the target, the UID, and the queue manager that sends.
        self.sent: dict[tuple[bytes, int], tuple[str, bytes, Node, Held]] = {}
        # stream and id of each message that was deleted before it was sent
        self.gone: set[tuple[bytes, int]] = set()
        self.clocks_are_true = False  # True if no wall clock jumps, so that no store clock is ahead
        self.world_ms = 0  # the simulated true time
        self.happened: Counter[str] = Counter()  # number of occurrences of each feature
        self._touched: dict[Unit, None] = {}  # units that this transaction affected

    def of(self, node: Node) -> View:
        """Returns the view of queue manager *node*."""
        return self.views.setdefault(node.name, View())

    def durable(self, node: Node, changes: list[Change]) -> None:
        """Checks a transaction, given as its changes."""
        view = self.of(node)
        messages: list[Change] = []
        view.altered = set()
        over: list[tuple[int, bytes]] = []
        for change in changes:
            space = change.key[:1]
            if space == keys.SPACE_MESSAGE:
                messages.append(change)
            elif space in (keys.SPACE_PRODUCER, keys.SPACE_LINK_INBOX):
                if change.new is None:
                    view.rows.pop(change.key, None)
                else:
                    view.rows[change.key] = rows.unseal(change.key, change.new)
            elif change.key == keys.CLOCK and change.new is not None:
                self._clock(node, view, change)
            elif space == keys.SPACE_QUEUE:
                self._queue(view, change)
            elif space == keys.SPACE_GROUP_ROW:
                over += groups.stored(view, change, self.happened)
                self._lapse(node, view, change)
        if messages:
            self._messages(node, view, messages)
        groups.forget(view, over)

    def _queue(self, view: View, change: Change) -> None:
        view.altered.add(change.key[1:].decode())
        if change.new is not None:
            row = unpack(rows.unseal(change.key, change.new))
            view.queues[row["queue_id"]] = (change.key[1:].decode(), row["kind"])
            view.attributes[row["queue_id"]] = row

    def _lapse(self, node: Node, view: View, change: Change) -> None:
        """Records that a group was removed because it remained incomplete for too long."""
        row = change.old and GroupRow.decode(rows.unseal(change.key, change.old))
        if row and change.new is None and row.parked_code == ErrorCode.GROUP_EXPIRED:
            queue_id, group_id = groups.named(change.key)
            self.ledger.lapsed.add((node.name, view.queues[queue_id][0], group_id))

    def _allows(self, view: View, queue_id: int, inhibit: str, fact: str) -> None:
        """Checks that an inhibit is respected, except in the turn that may have lifted it."""
        inhibited = view.attribute(queue_id, inhibit, default=False)
        was_altered = view.queues[queue_id][0] in view.altered
        require(was_altered or not inhibited, "inhibited_is_held_back", fact)

    def _clock(self, node: Node, view: View, change: Change) -> None:
        assert change.new is not None
        row = keys.CLOCK_ROW.unpack(rows.unseal(change.key, change.new))
        store_ms, _, stamp_us, turn, _ = row
        before_ms, before_us, before = view.clock
        fact = f"{node.name}: {row} after {view.clock}"
        require(store_ms >= before_ms and stamp_us >= before_us, "clocks_never_go_back", fact)
        is_first = change.old is None  # A new store begins at turn 0.
        require(turn == before + (not is_first), "turns_are_counted", fact)
        view.clock = (store_ms, stamp_us, turn)

    def _messages(self, node: Node, view: View, changes: list[Change]) -> None:
        """Checks all changes of messages together, because a message may move between queues."""
        before, after = self._places(view, changes)
        left = {view.held[handle].put.serial: handle for handle in before if handle not in after}
        arrived = [(handle, *found) for handle, found in after.items() if handle not in before]
        sources: dict[Handle, tuple[Handle, Held]] = {}
        view.passing = {
            (handle[0], view.held[handle].target, view.held[handle].trailer) for handle in before
        }
        for handle, _, (_, value) in arrived:
            entry = entries.decode(value)
            view.passing.add((handle[0], entry.target, entries.uid_trailer(entry)))
            put = self.ledger.of(entries.record(node.store, entry), node.name)
            if put.serial in left:
                source = left.pop(put.serial)
                sources[handle] = source, self._take_off(view, source)
        self._touched.clear()
        for handle in left.values():
            self._removed(node, view, handle)
        for handle, key, place in arrived:
            self._added(node, view, handle, key, place, sources.get(handle))
        for handle, (_, place) in after.items():
            if handle in before:
                self._changed(node, view, handle, place)
        for unit in self._touched:
            self._committed(unit, view)

    def _places(
        self, view: View, changes: list[Change]
    ) -> tuple[dict[Handle, Place], dict[Handle, tuple[bytes, Place]]]:
        """Returns the previous and the current places of messages, by key."""
        before: dict[Handle, Place] = {}
        after: dict[Handle, tuple[bytes, Place]] = {}
        for change in changes:
            handle = int.from_bytes(change.key[1:5], "big"), keys.place(change.key)[1]
            lane = change.key[5]
            if lane not in _LANES or not is_watched(view.queues[handle[0]][0]):
                continue  # The message was set aside; its removed row is judged instead.
            if change.old is not None:
                before[handle] = (lane, change.old)
            if change.new is not None:
                after[handle] = (change.key, (lane, change.new))
        return before, after

    def _take_off(self, view: View, handle: Handle) -> Held:
        held = view.held.pop(handle)
        if not view.is_lost(held):
            view.uids.discard((handle[0], held.target, held.trailer))
        order.leave(view, handle, held)
        return held

    def _added(
        self,
        node: Node,
        view: View,
        handle: Handle,
        key: bytes,
        place: Place,
        source: tuple[Handle, Held] | None,
    ) -> None:
        lane, value = place
        entry = entries.decode(value)
        put = self.ledger.of(entries.record(node.store, entry), node.name)
        trailer = entries.uid_trailer(entry)
        name, kind = view.queues[handle[0]]
        fact = f"message {put.serial} of {put.producer} on {name} at {node.name}"
        uid = (handle[0], entry.target, trailer)
        require(uid not in view.uids, "one_message_of_a_uid_on_a_queue", fact)
        held = view.held[handle] = Held(
            put,
            trailer,
            entry.target,
            keys.place(key)[0],
            view.crashes,
            view.life,
            lane == keys.LANE_DELAYED,
            entry.expires_ms,
            0,
            node.outcomes,
        )
        view.uids.add(uid)
        view.ever.add((name, trailer))
        if not held.is_delayed:
            order.stand(view, handle, held)
        if source is not None:
            put.wandered = True
            self._moved(node, view, *source, handle, fact)
            return
        if put.where == node.name:
            require(not put.entered, "nothing_is_doubled", fact)
            put.entered, put.trailer = True, trailer
            if put.unit is not None:
                self._touched[put.unit] = None
        if kind == "transmission":
            stream = node.store_id + handle[0].to_bytes(8, "big")
            self.sent[stream, handle[1]] = (entry.target, trailer, node, held)
            return
        put.homes += 1
        require(put.homes == 1, "nothing_is_doubled", fact)
        self._came_home(node, view, handle, held, fact)
        if put.member is not None and not put.wandered:
            groups.record_arrival(view, handle, held, fact)

    def _came_home(self, node: Node, view: View, handle: Handle, held: Held, fact: str) -> None:
        """Checks the queue and the times of a message that has arrived."""
        put, name = held.put, view.queues[handle[0]][0]
        if name in fate.DEAD and put.home != (node.name, name):
            known = put.home in self.ledger.pushing or (put.unit and self._may_expire(put))
            code = name_of(notes.read(node.store, *handle).get("code", 0))
            known = known or self.ledger.may_refuse(put, code)
            if put.member is not None and code == "MESSAGE_REJECTED":
                known = known or fate.is_skipped(self.ledger, put, *put.home)
            if put.member is not None and code == "GROUP_EXPIRED":
                ids = [at for at, (queue, _) in view.queues.items() if queue == put.home[1]]
                known = known or view.attribute(max(ids), "group_incomplete_ms", 0)
            require(known, "dead_letters_have_a_cause", f"{fact}: {code}")
            put.wandered = True  # The message was evicted or expired in the turn of its put.
            self.ledger.died_on[node.name, *handle] = put.home[1]
            self.happened["dead letters"] += 1
            return
        require(put.home == (node.name, name), "delivered_was_accepted", fact)
        if put.unit is None or put.where != node.name:
            self._allows(view, handle[0], "put_inhibit", fact)
        traits, cap_ms = put.traits, view.attribute(handle[0], "expiry_max_ms", 0)
        live_ms = min(traits.expiry_ms or cap_ms, cap_ms or traits.expiry_ms)
        latest_ms = view.now_ms + live_ms if live_ms else 0
        is_exact = put.where == node.name and put.unit is None
        fact = f"{fact}: {held.expires_ms}, {latest_ms} at {view.now_ms}"
        in_time = held.expires_ms == latest_ms if is_exact else 0 <= held.expires_ms <= latest_ms
        require(in_time and (not latest_ms or held.expires_ms), "expiry_is_as_put", fact)
        if is_exact and traits.delay_ms:
            held.ready_ms = view.now_ms + traits.delay_ms
            require(held.is_delayed, "nothing_before_its_time", fact)
        self.happened["delayed"] += held.is_delayed

    def _moved(
        self, node: Node, view: View, source: Handle, held: Held, target: Handle, fact: str
    ) -> None:
        if (node.name, held.put.serial) in self.ledger.rotten:
            if held.is_member:
                groups.went(view, source, held, "rotten")
            return
        how = fate.of_moved(self.ledger, node, view, source, held, target, fact)
        moved = view.held[target]
        if held.is_member:
            alone = how in groups.OWN and not view.group_of(source[0], held.put).is_parked
            queue = view.queues[source[0]][0]
            skipped = fate.is_skipped(self.ledger, held.put, node.name, queue)
            require(skipped or not alone, "members_wait_for_their_group", f"{fact}: {how}")
            groups.went(view, source, held, how)
        if how == "moved":
            if held.put.member is not None:
                group = view.group_of(target[0], held.put)
                group.strangers.add(held.put.member.number)
            self.happened["moved back"] += 1
            return
        self.happened["dead letters"] += 1
        self.happened[how.lower()] += 1
        fact = f"{fact}, expires {moved.expires_ms}"
        require(not (moved.expires_ms or moved.is_delayed), "dead_letters_stay", fact)

    def _changed(self, node: Node, view: View, handle: Handle, place: Place) -> None:
        """Checks a message that has returned to its queue, or has become available."""
        lane, value = place
        entry, held = entries.decode(value), view.held[handle]
        was_delayed, held.is_delayed = held.is_delayed, lane == keys.LANE_DELAYED
        raised = entry.failed - held.failed
        fact = f"message {held.put.serial}, {handle} of {node.name}, {entry.failed} failures"
        require(raised in (0, 1), "failures_are_counted", fact)
        came_back = not was_delayed and (
            raised or entry.delivered > held.delivered or held.is_delayed
        )
        if came_back:
            if handle in view.handed:
                view.handed[handle].came_back = True
            wait_ms = fate.wait_ms(self.ledger, node, view, handle, held, failed=bool(raised))
            if lane == keys.LANE_GROUPED and view.is_stopped(handle[0], held):
                wait_ms = 0  # The message waits for an operator instead.
            held.ready_ms = view.now_ms + wait_ms if wait_ms else 0
            self.happened["failures"] += raised
            self.happened["retries"] += held.is_delayed
            if raised:
                held.is_stuck = view.met(held.trailer, *fate.DEAD)
        held.failed, held.delivered = entry.failed, entry.delivered
        if not held.is_delayed and (was_delayed or came_back):
            held.outcome = node.outcomes
            fact = f"{fact}: {view.now_ms}, not before {held.ready_ms}"
            require(view.now_ms >= held.ready_ms, "nothing_before_its_time", fact)
            order.stand(view, handle, held)

    def _removed(self, node: Node, view: View, handle: Handle) -> None:
        held = self._take_off(view, handle)
        name, kind = view.queues[handle[0]]
        fact = f"message {held.put.serial}, id {handle[1]} of {name} at {node.name}"
        if kind == "transmission":
            self._left_for_peer(node, view, handle, held, fact)
            return
        put = held.put
        put.removed = True
        if (node.name, put.serial) in self.ledger.rotten:
            put.fate = "rotten"  # The message may have been set aside.
            handed = view.handed.get(handle)
            unit = handed and self.ledger.of_units.get((node.name, *handle, handed.lease))
            if unit and view.is_committed(unit):
                self._touched[unit] = None
            if held.is_member:
                groups.went(view, handle, held, put.fate)
            return
        how = fate.of_removed(self.ledger, node, view, handle, held, fact)
        if held.is_member:
            groups.went(view, handle, held, how)
            self.happened["members consumed"] += how in ("consumed", "committed")
        if how == "committed":
            lease = view.handed[handle].lease
            self._touched[self.ledger.of_units[node.name, *handle, lease]] = None
        if how not in ("consumed", "committed"):
            put.fate = how
            self.happened[how] += 1
            return
        put.consumed += 1

    def _left_for_peer(self, node: Node, view: View, handle: Handle, held: Held, fact: str) -> None:
        name = view.queues[handle[0]][0]
        there = self.views[name[1:]].ever
        forgotten = self.ledger.forgets((name[1:], held.target))
        there_is = {(name, held.trailer) for name in (held.target, DEAD_LETTERS)} & there
        over = self._is_over(node, held)
        if forgotten or there_is:
            # The message at the peer may be another one with the same UID.
            held.put.strayed = held.put.strayed or over
            return
        is_rotten = (node.name, held.put.serial) in self.ledger.rotten
        require(is_rotten or over, "deleted_is_held_by_the_receiver", fact)
        held.put.strayed = over or "rotten"
        self.happened[held.put.strayed] += 1
        self.gone.add((node.store_id + handle[0].to_bytes(8, "big"), handle[1]))

    def _is_over(self, node: Node, held: Held) -> str:
        """Returns why a message that waits for its link at *node* no longer counts, or ""."""
        if self.of(node).is_lost(held):
            return "lost"
        return "expired" if self.of(node).is_expired(held, node.now().ms) else ""

    def _committed(self, unit: Unit, view: View) -> None:
        """Checks a transaction that commits a unit: all of the unit, and for the first time."""
        fact = described(unit)
        first = unit.committing and not unit.entered and view.is_committed(unit)
        require(first, "unit_is_all_or_nothing", fact)
        for put in unit.puts:
            if not put.entered and put.lives_ms and self._may_expire(put):
                # The message expired in the turn of the commit.
                put.entered, put.strayed = True, "expired"
        missing = [put.serial for put in unit.puts if not self.ledger.entered(put)]
        kept = (
            []
            if (unit.where, unit.source) in self.ledger.purges
            else [handle for handle in unit.gets if handle in view.held]
        )
        fact = f"{fact}: {missing} are missing, {kept} were kept"
        require(not missing and not kept, "unit_is_all_or_nothing", fact)
        unit.entered = True

    def _may_expire(self, put: Put) -> bool:
        """Returns whether the time to live of *put* may have ended, by the true time."""
        due_ms = put.made_ms + put.lives_ms
        return not self.clocks_are_true or self.world_ms >= due_ms

    def stopped(self, node: Node, *, clean: bool) -> None:
        """Records that a process has ended, and its leases with it."""
        self.of(node).stopped(clean=clean)
