"""Determines why a message left its queue. Each departure must have one of these causes.

acknowledged                                                       consumed
got by a unit of work that was committed                           committed
became a dead letter, or returned from the dead letters            moved
expired; evicted from a queue that overflowed; purged;             gone
not persistent, and the daemon restarted
"""

from typing import Any

from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.messages import DELAY_OF_QUEUE
from qmgrd.core.queue import notes
from tests.sim.ledger import BACKOUT, DEAD_LETTERS, Ledger, Put, require
from tests.sim.node import Node
from tests.sim.view import Group, Handed, Handle, Held, View

DEAD = (DEAD_LETTERS, BACKOUT)
_FAILURES = (
    ErrorCode.BACKOUT_THRESHOLD_REACHED,
    ErrorCode.DELIVERY_LIMIT_REACHED,
    ErrorCode.MESSAGE_REJECTED,
    ErrorCode.GROUP_FAILED,
)


def is_over(ledger: Ledger, node: Node, view: View, handle: Handle, handed: Handed) -> bool:
    """Returns whether the lease of *handle* has visibly ended."""
    if handed.life != view.life or _is_gone(node, handed):
        return True
    if _unit_is_over(node, handed):
        return True
    if handed.unit is not None:
        return False
    if may_be_taken_back(ledger, node, view, handle, handed):
        return True
    return has_ended(ledger, node, handle, handed)


def _unit_is_over(node: Node, handed: Handed) -> bool:
    """Returns whether a message was got in a unit of work that has ended or may have ended."""
    unit = handed.unit or handed.offered
    if unit is not None and node.now().ms >= unit.begun_ms + node.config.unit.age_max_ms:
        return True
    return unit is not None and unit.ending


def has_ended(ledger: Ledger, node: Node, handle: Handle, handed: Handed) -> bool:
    """Returns whether a lease has timed out, or its message was released."""
    now_ms = node.now().ms
    return handed.deadline_ms <= now_ms or (node.name, *handle, handed.lease) in ledger.releases


def is_skipped(ledger: Ledger, put: Put, where: str, queue: str) -> bool:
    """Returns whether an operator may have skipped a number, at home or on *queue*."""
    assert put.member is not None
    group_id, number = put.member.group_id, put.member.number
    keys = (put.group, (where, queue, group_id))
    return any(number < ledger.skipped.get(key, 0) for key in keys)


def has_expired(view: View, queue_id: int, group: Group) -> bool:
    """Returns whether a group may have been removed because it was incomplete for too long."""
    row = group.row
    if row is None:
        is_told = True
    else:  # A closed group is remembered for some time.
        is_told = row.parked_code == ErrorCode.GROUP_EXPIRED or (row.is_closed and row.is_empty)
    return is_told and bool(view.attribute(queue_id, "group_incomplete_ms", 0))


def may_be_taken_back(
    ledger: Ledger, node: Node, view: View, handle: Handle, handed: Handed
) -> bool:
    """Returns whether a lease may have ended together with that of an earlier message."""
    member, held = handed.member, view.held.get(handle)
    if not handed.holder:
        return False
    if member is None:  # A former dead letter may still belong to its group.
        return held is None or held.put.member is not None
    return any(
        before < member.number
        and other.holder == handed.holder
        and (has_ended(ledger, node, at, other) or _unit_is_over(node, other))
        for before, at, other in view.groups[handle[0], member.group_id].outs
    )


def _is_gone(node: Node, handed: Handed) -> bool:
    """Returns whether the connection that delivered a message is closed or closing."""
    port = node.ports.get(handed.connection)
    # The connection may have closed in this turn.
    is_closed = handed.connection not in node.turns.broker.sessions
    return node.is_stopping or port is None or port.peer.goaway is not None or is_closed


def of_removed(
    ledger: Ledger, node: Node, view: View, handle: Handle, held: Held, fact: str
) -> str:
    """Returns why a message permanently left the queue manager."""
    queue = (node.name, view.queues[handle[0]][0])
    handed = view.handed.get(handle)
    if queue in ledger.purges:
        return "purged"
    if view.is_lost(held):
        return "lost"
    group = view.group_of(handle[0], held.put) if held.put.member else None
    unit = handed and ledger.of_units.get((node.name, *handle, handed.lease))
    if unit and view.is_committed(unit):
        return "committed"
    leases = ledger.acks.get((node.name, *handle), set())
    if handed is not None and handed.lease in leases:
        return "consumed"
    free = handed is None or is_over(ledger, node, view, handle, handed)
    if leases and free:
        return "consumed"
    if held.put.uid is not None and _is_elsewhere(ledger, node, view, handle, held):
        # The message was put twice: one copy became a dead letter, and one is on its queue.
        return "merged"
    if view.is_expired(held, view.now_ms):
        require(free, "leased_is_left_alone", fact)
        discards = view.attribute(handle[0], "expiry_action", "discard") == "discard"
        require(discards, "acknowledged_is_never_lost", f"{fact} expired, and is not a dead letter")
        return "expired"
    if group is not None and has_expired(view, handle[0], group):
        require(free, "leased_is_left_alone", fact)
        return "group expired"
    if view.attribute(handle[0], "overflow", "refuse") == "discard-oldest":
        require(free, "leased_is_left_alone", fact)
        return "pushed out"
    expiry = held.expires_ms or held.put.traits.expiry_ms
    require(not expiry, "expired_when_its_time_is_over", f"{fact}, {view.now_ms} of {expiry}")
    require(not leases, "settled_by_its_holder", fact)
    require(False, "removed_was_acknowledged", fact)
    return ""


def _is_elsewhere(ledger: Ledger, node: Node, view: View, handle: Handle, held: Held) -> bool:
    home = ledger.died_on.get((node.name, *handle), "")
    own = view.queues[handle[0]][0]
    return view.met(held.trailer, *{home, *DEAD} - {own})


def of_moved(
    ledger: Ledger, node: Node, view: View, source: Handle, held: Held, target: Handle, fact: str
) -> str:
    """Returns why a message moved to another queue of its queue manager."""
    name, to = view.queues[source[0]][0], view.queues[target[0]][0]
    if name == to:
        return "moved"  # The message became a dead letter and was moved back in the same turn.
    note = notes.read(node.store, *target)
    code = note.get("code", 0)
    if to not in DEAD or not code:  # A dead letter may return to a backout queue.
        home = ledger.died_on.get((node.name, *source)) == to and name in DEAD
        require(home, "dead_letters_have_a_cause", f"{fact} went to {to}")
        return "moved"
    fact = f"{fact} went to {to}: {note}"
    known = note.get("queue") == name and note.get("manager") == node.name
    require(known, "dead_letters_have_a_cause", fact)
    require(_has_cause(ledger, node, view, source, held, code), "dead_letters_have_a_cause", fact)
    wanted = view.attribute(source[0], "backout_queue", "") or DEAD_LETTERS
    if code not in _FAILURES:
        wanted = DEAD_LETTERS
    require(to in (wanted, DEAD_LETTERS), "dead_letters_have_a_cause", fact)
    ledger.died_on[node.name, *target] = name
    handed = view.handed.get(source)
    alone = (ErrorCode.MESSAGE_EXPIRED, ErrorCode.QUEUE_FULL, ErrorCode.GROUP_FAILED)
    if code in alone and handed is not None:
        free = handed.came_back or is_over(ledger, node, view, source, handed)
        require(free, "leased_is_left_alone", fact)
    return ErrorCode(code).name


def _has_cause(
    ledger: Ledger, node: Node, view: View, handle: Handle, held: Held, code: int
) -> bool:
    """Returns whether a message has a reason to be a dead letter with code *code*."""

    def attribute(name: str, default: Any) -> Any:
        return view.attribute(handle[0], name, default)

    handed = view.handed.get(handle)
    lease = handed.lease if handed else 0
    group = view.group_of(handle[0], held.put) if held.put.member else None
    if group is not None and group.is_parked and not held.is_member:
        # The message was a dead letter earlier, so its failures may date from that time.
        return True
    if code == ErrorCode.BACKOUT_THRESHOLD_REACHED:
        return bool(0 < attribute("backout_threshold", 0) <= held.failed + 1)
    if code == ErrorCode.DELIVERY_LIMIT_REACHED:
        return bool(0 < attribute("delivery_limit", 20) <= held.delivered + 1 - held.failed)
    if code == ErrorCode.MESSAGE_REJECTED:
        queue = view.queues[handle[0]][0]
        skipped = group is not None and is_skipped(ledger, held.put, node.name, queue)
        return skipped or (node.name, *handle, lease) in ledger.rejects
    if code == ErrorCode.GROUP_FAILED:
        return group is not None and bool(group.is_parked or group.failed)
    if code == ErrorCode.GROUP_EXPIRED:
        return group is not None and has_expired(view, handle[0], group)
    if code == ErrorCode.MESSAGE_EXPIRED:
        is_expired = view.is_expired(held, view.now_ms)
        return is_expired and bool(attribute("expiry_action", "discard") == "dead-letter")
    return bool(attribute("overflow", "refuse") == "dead-letter-oldest")


def wait_ms(
    ledger: Ledger, node: Node, view: View, handle: Handle, held: Held, *, failed: bool
) -> int:
    """Returns the minimum time for which a returned message must stay unavailable.

    Args:
        held: The state of the message before its return.
        failed: True if the number of its failures was increased.
    """
    queued = 0
    if failed:
        initial_ms = view.attribute(handle[0], "retry_initial_ms", 0)
        factor = view.attribute(handle[0], "retry_factor", 2.0)
        most_ms = view.attribute(handle[0], "retry_max_ms", 3_600_000)
        jitter = view.attribute(handle[0], "retry_jitter_percent", 10)
        longest_ms = min(initial_ms * factor ** min(held.failed, 50), most_ms)
        queued = max(int(longest_ms * (1 - jitter / 100)) - 1, 0)
    handed = view.handed.get(handle)
    if handed is None:
        return 0
    releases = ledger.releases.get((node.name, *handle, handed.lease), {DELAY_OF_QUEUE})
    asked = min(queued if delay_ms == DELAY_OF_QUEUE else delay_ms for delay_ms in releases)
    if failed:
        return min(asked, queued)
    if _is_gone(node, handed):
        return 0  # The connection may have been lost before the release arrived.
    if may_be_taken_back(ledger, node, view, handle, handed):
        return 0  # The message may have returned together with an earlier message of its group.
    return asked
