"""Checks the order within groups from the stored rows and the deliveries.

    stored      the row of each group, and its members on their queue
    delivered   in logical and pinned order; order.py judges physical order

A dead letter that returns to its queue no longer belongs to its group there, because its number was
already used. The invariants do not cover messages that were dead letters ("strangers").
"""

from collections import Counter

from qmgr_protocol import messages as m
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.group.row import GroupRow
from tests.sim import fate
from tests.sim.ledger import Holder, Ledger, require
from tests.sim.node import Node
from tests.sim.store import Change
from tests.sim.view import Group, Handed, Handle, Held, View

# Reasons why a missing message leaves a gap, at which its group must stop
GAPS = ("expired", "lost", "rotten", "MESSAGE_EXPIRED")
OWN = ("BACKOUT_THRESHOLD_REACHED", "DELIVERY_LIMIT_REACHED", "MESSAGE_REJECTED")


def stored(view: View, change: Change, happened: Counter[str]) -> list[tuple[int, bytes]]:
    """Records a row of a group. Returns the group if its history must be forgotten."""
    queue_id, group_id = named(change.key)
    group = view.groups.setdefault((queue_id, group_id), Group())
    before, group.row = group.row, None
    if change.new is not None:
        group.row = GroupRow.decode(rows.unseal(change.key, change.new))
        group.was_stopped |= is_stopped(group.row)
        if group.row.parked_number:
            happened["groups parked"] += not (before and before.parked_number)
            group.is_parked = True
    if group.row is None:
        happened["groups ended"] += 1
    elif before is None or group.row.done >= before.done:
        return []
    return [(queue_id, group_id)]


def named(key: bytes) -> tuple[int, bytes]:
    """Returns the queue and the id of the group for the row *key*."""
    return int.from_bytes(key[1:5], "big"), key[keys.GROUP_ID_AT :]


def forget(view: View, over: list[tuple[int, bytes]]) -> None:
    """Forgets groups that have ended. New messages with the same ids belong to new groups."""
    for key in over:
        group = view.groups[key]
        view.groups[key] = Group(
            group.row,
            group.there,
            strangers=group.strangers,
            holder=group.holder,
            was_stopped=group.was_stopped,
        )


def record_arrival(view: View, handle: Handle, held: Held, fact: str) -> None:
    """Checks the put of a message of a group."""
    member = held.put.member
    assert member is not None
    group = view.group_of(handle[0], held.put)
    fact = f"{fact}: number {member.number}"
    once = member.number not in group.there and member.number not in group.left
    require(once, "number_is_put_once", fact)
    group.there[member.number] = handle
    held.is_member = True


def went(view: View, handle: Handle, held: Held, how: str) -> None:
    """Records that a message of a group has left its queue."""
    member = held.put.member
    assert member is not None
    group = view.group_of(handle[0], held.put)
    del group.there[member.number]
    if how not in GAPS:
        group.left.add(member.number)
    elif how == "rotten":  # The holder may have acknowledged this message first.
        group.strangers.add(member.number)
    group.failed += how in OWN


def judge(
    ledger: Ledger,
    node: Node,
    view: View,
    handle: Handle,
    held: Held,
    holder: Holder,
    state: int,
    happened: Counter[str],
) -> None:
    """Checks the delivery of a group's message in logical or pinned order."""
    member = held.put.member
    assert member is not None
    group = view.group_of(handle[0], held.put)
    fact = f"{handle} by {node.name}: number {member.number} of {member.group_id.hex()[:8]}"
    _has_one_holder(ledger, node, view, group, holder, fact)
    skipped = ledger.skipped.get(held.put.group, 0)
    for number in range(max(skipped, 1), member.number):
        if number in group.left or number in group.strangers:
            continue
        at = group.there.get(number)
        if at is None and number < min(group.strangers, default=0):
            continue  # The message left before later ones became dead letters.
        before = view.handed.get(at) if at else None
        in_hands = before is not None and before.holder == holder
        require(in_hands, "members_are_in_order", f"{fact} before {number}: {group}")
    if group.holder != holder:
        # The flag of a stranger is not checked.
        told = state & m.STATE_TAKEN_OVER or group.strangers
        require(bool(told), "taken_over_is_told", f"{fact} to {holder}, after {group.holder}")
        happened["handovers"] += bool(group.holder)
    group.holder = holder


def goes_on(view: View, handle: Handle, held: Held, fact: str) -> None:
    """Checks a delivery of a group's message in any order. The group must not be stopped."""
    row = view.group_of(handle[0], held.put).row
    was_altered = row is None or row.changed_ms >= view.now_ms
    require(was_altered or not is_stopped(row), "stopped_is_held_back", f"{fact}: {row}")


def is_complete(
    ledger: Ledger, node: Node, view: View, handle: Handle, held: Held, fact: str
) -> None:
    """Checks the delivery of a message to a consumer of complete groups."""
    group = view.group_of(handle[0], held.put)
    row = group.row
    is_there = row is not None and 0 < row.last == row.count
    is_there = is_there or bool(group.strangers)  # Groups with strangers are not checked.
    require(is_there, "only_of_whole_groups", f"{fact}: {group}")
    for number, at in group.there.items():
        out = view.handed.get(at)
        is_free = out is None or at == handle or fate.is_over(ledger, node, view, at, out)
        require(is_free, "only_of_whole_groups", f"{fact}: {number} is leased")


def is_stopped(row: GroupRow | None) -> bool:
    """Returns whether the row of a group shows that the group waits for an operator."""
    return row is not None and bool(row.is_paused or row.parked_number)


def _has_one_holder(
    ledger: Ledger, node: Node, view: View, group: Group, holder: Holder, fact: str
) -> None:
    for number, at in group.there.items():
        out = view.handed.get(at)
        if out is None or not out.holder or out.holder == holder:
            continue
        over = fate.is_over(ledger, node, view, at, out)
        require(over, "group_has_one_holder", f"{fact} to {holder}, {number} has {out.holder}")


def hand_out(view: View, handle: Handle, held: Held, handed: Handed) -> None:
    """Records the delivery of a message of a group, in any order."""
    if held.put.member is not None and handed.holder:
        group = view.group_of(handle[0], held.put)
        group.outs.append((held.put.member.number, handle, handed))
