"""Starts the work that turns request from the shell: connections, snapshots and a switch-over."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from qmgrd.core.context.context import BeginSwitchOver, Dial, Effect, TakeSnapshot


class Effects:
    """The effects of durable turns.

    Invariant: ``_tasks`` has each task that has not ended.
    """

    def __init__(
        self,
        dial: Callable[[Dial], Coroutine[Any, Any, None]],
        switch_over: Callable[[BeginSwitchOver], Coroutine[Any, Any, None]],
        take_snapshot: Callable[[TakeSnapshot], None],
    ) -> None:
        self._dial, self._switch_over, self._take_snapshot = dial, switch_over, take_snapshot
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, effect: Effect, group: asyncio.TaskGroup | None) -> None:
        """Starts the work of *effect*. A connection needs a *group*, which owns its task."""
        if isinstance(effect, TakeSnapshot):
            self._take_snapshot(effect)
        elif group is not None:
            work = self._dial(effect) if isinstance(effect, Dial) else self._switch_over(effect)
            task = group.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """The tasks that have not ended."""
        return tuple(self._tasks)
