"""Checks the order of first deliveries.

The field ``waiting`` of a view has, by queue and priority, the arrivals that are available but were
never delivered. A consumer without a selector receives the first of these. Messages keep the order
of their puts, even if a unit of work is committed later. A consumer with a selector may skip
messages.
"""

from bisect import bisect_left, insort

from tests.sim.ledger import Ledger, require
from tests.sim.view import Handle, Held, View


def stand(view: View, handle: Handle, held: Held) -> None:
    """Adds an available message to the waiting messages."""
    if handle not in view.handed:
        insort(view.waiting.setdefault((handle[0], held.priority), []), handle[1])


def leave(view: View, handle: Handle, held: Held) -> int:
    """Removes a message from the waiting messages; returns the number of earlier ones."""
    line = view.waiting.get((handle[0], held.priority), [])
    at = bisect_left(line, handle[1])
    if at < len(line) and line[at] == handle[1]:
        del line[at]
    return at


def judge(
    ledger: Ledger,
    view: View,
    where: str,
    handle: Handle,
    now_ms: int,
    outcome: int,
    unordered: set[tuple[str, str]],
    in_order: set[tuple[str, str]],
) -> None:
    """Checks the first delivery of a message to a consumer without a selector."""
    queue_id, arrival = handle
    held = view.held[handle]
    line = view.waiting.get((queue_id, held.priority), [])
    for earlier in line[: bisect_left(line, arrival)]:
        passed = view.held[queue_id, earlier]
        excused = (
            passed.outcome
            >= outcome  # The message arrived in this turn, after the deliveries were chosen.
            or view.is_lost(passed)
            or view.is_expired(passed, now_ms)
            or view.is_stopped(queue_id, passed)
            or (where, passed.put.serial) in ledger.rotten
        )
        fact = f"{handle} of {where} before {earlier}, message {passed.put.serial}"
        require(excused, "order_of_arrival", fact)
    put = held.put
    way = (put.where, put.home[0])
    if way not in in_order and (way in unordered or put.home in unordered):
        return
    if put.wandered or put.traits.delay_ms:
        return
    if held.is_member and view.group_of(queue_id, put).was_stopped:
        return
    key = (queue_id, held.priority, put.producer)
    last = view.order.get(key, -1)
    fact = f"{handle} of {where}: {put.serial} after {last}"
    require(put.serial > last, "order_per_producer", fact)
    view.order[key] = put.serial
