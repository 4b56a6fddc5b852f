"""Updates the lines and jobs for the groups that a turn changed."""

from qmgr_protocol.group_id import shown
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.jobs import Jobs


def refresh_groups(context: Context, jobs: Jobs) -> None:
    """Moves the groups that this turn changed to the correct lines, and wakes their consumers."""
    dirty, awake = context.dirty_queues, context.awake_queues
    for queue in ({**dirty, **awake} if awake else dirty.copy()).values():
        if queue.groups.is_fresh:
            continue
        if not context.begin_work("groups", queue.id):
            queue.groups.skip_refresh()
            continue
        context.count_read(queue.groups.rows_to_refresh, 0)
        if queue.refresh_groups(context.tx, context.now):
            context.wake(queue)
        for group_id in queue.groups.restored:
            context.note(
                "error",
                "the stored state of a group was invalid: counted again",
                queue=queue.name,
                group=shown(group_id),
            )
        queue.groups.restored.clear()
        for group_id in list(queue.groups.ripe):
            jobs.end_group(queue, group_id)
        queue.groups.ripe.clear()
        if queue.groups.has_new_bounds:
            queue.groups.has_new_bounds = False
            jobs.watch_groups(queue)
        if queue.groups.wrote:
            queue.groups.wrote = False
            context.dirty_queues[queue.id] = queue
