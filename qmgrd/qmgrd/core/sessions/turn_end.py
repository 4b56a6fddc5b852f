"""Writes the rows that change with any turn: counters of queues, history, and the clock."""

from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.sessions.unused import Unused


def write_turn(context: Context, unused: Unused, producers: int) -> None:
    """Writes the state of the changed queues. A turn that changed nothing writes nothing.

    Args:
        context: The context of the turn.
        unused: The queues that may expire. Their time begins when their last lease ends.
        producers: The number of producers in the store.
    """
    for queue in context.dirty_queues.values():
        queue.flush(context.tx)
        was_leased = context.totals.count(queue)
        if was_leased and not queue.leases:
            unused.used(queue)
    if not (context.dirty_queues or context.wrote or context.history.is_due):
        return
    context.dirty_queues.clear()
    context.turn_number += 1
    if context.begin_work("history"):
        context.history.write(context)
    else:
        context.history.forget_pending()
    context.working = None
    row = keys.CLOCK_ROW.pack(
        context.now.ms, context.now.wall_us, context.stamper.last_us, context.turn_number, producers
    )
    rows.put(context.tx, keys.CLOCK, row)
