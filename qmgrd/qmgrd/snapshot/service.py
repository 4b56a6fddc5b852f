"""The daemon's entry point for snapshots, both requested and scheduled."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from qmgr_config.model import Config
from qmgr_protocol.errors import RequestError
from qmgrd.core.broker import Broker
from qmgrd.core.context.context import Note, TakeSnapshot
from qmgrd.snapshot.schedule import SnapshotTimetable
from qmgrd.snapshot.snapshot import Snapshotter
from qmgrd.store.lmdb_store import LmdbStore

log = structlog.get_logger()
# The type of a function that schedules a call on the broker for one of the next turns.
InTurn = Callable[[Callable[[Broker], None]], object]


class SnapshotService:
    """All snapshots of a daemon. Used only on the daemon's thread."""

    def __init__(
        self,
        config: Config,
        store: LmdbStore,
        loop: Callable[[], asyncio.AbstractEventLoop],
        in_turn: InTurn,
    ) -> None:
        data_dir = config.queue_manager.data_dir
        self._loop = loop
        self._in_turn = in_turn
        self._snapshotter = Snapshotter(
            store,
            lambda call: loop().call_soon_threadsafe(call),
            reserve_bytes=config.store.free_disk_min_bytes,
            rate_bytes=config.snapshots.rate_bytes,
            puts_stop_bytes=store.map_bytes * config.store.high_water_percent // 100,
            staging=str(data_dir / "staging"),
        )
        self._schedule = SnapshotTimetable(config.snapshots, config.queue_manager.name, data_dir)
        self._timer: asyncio.TimerHandle | None = None
        self.give_way = self._snapshotter.give_way
        self._is_closed = False

    def close(self) -> None:
        """Ends the copy that is being made, and the schedule."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._snapshotter.close()

    def facts(self) -> dict[str, Any]:
        """Returns the progress of the current snapshot, and the state of the schedule."""
        return {"snapshot": self._snapshotter.facts(), "snapshots": self._schedule.facts()}

    def look(self) -> None:
        """Requests a snapshot if one is due, and sets the timer for the next check."""
        if not self._schedule.is_on:
            return
        directory = self._schedule.due(_wall_us())
        if directory:
            self._in_turn(lambda broker: broker.admin.take_snapshot(0, 0, directory))
        self._look_again()

    def _look_again(self) -> None:
        if self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop().call_later(self._schedule.wait_s(_wall_us()), self.look)

    def take(self, wanted: TakeSnapshot) -> None:
        """Starts copying the turn that has just become durable.

        Replies when the copy is written.
        """
        is_asked = wanted.connection != 0
        answer = partial(self._answer if is_asked else self._update_schedule, wanted)
        keep = 0 if is_asked else self._schedule.keep
        try:
            self._snapshotter.start(
                wanted.directory, wanted.turn_number, answer, wanted.rate_bytes, keep
            )
        except RequestError as error:
            answer(error)
        else:
            if not is_asked:
                self._schedule.begun(_wall_us())

    def _answer(self, wanted: TakeSnapshot, result: dict[str, Any] | RequestError) -> None:
        connection, request_id = wanted.connection, wanted.request_id
        self._in_turn(lambda broker: broker.answer_snapshot(connection, request_id, result))

    def _update_schedule(self, wanted: TakeSnapshot, result: dict[str, Any] | RequestError) -> None:
        after = self._snapshotter.after
        for note in self._schedule.answered(_wall_us(), wanted.directory, result, after):
            getattr(log, note.level)(note.event, **note.facts)
            if note.level != "info":
                self._in_turn(partial(_record_event, note))
        self._look_again()


def _record_event(note: Note, broker: Broker) -> None:
    broker.context.event(note.event, **note.facts)


def _wall_us() -> int:
    return time.time_ns() // 1000
