"""The law recorded_once: each request that changed something has exactly one record of the audit.

The law compares the records that a transaction stored with the answers of the same turn. It reads
both without the core: an answer shows the changed user, the queue or the job.

    OK with the row of a user     one record of a change of that user
    OK with the row of a job      one record of the move that began it, unless there were many moves
    a job that has ended          one record of its end
    a record                      one of these, in the same turn
"""

import json
from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from qmgr_protocol import messages as m
from qmgr_protocol.codec import unpack
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.sim.ledger import HOSTILE, require
from tests.sim.store import Change

if TYPE_CHECKING:
    from tests.sim.lab import Lab
    from tests.sim.node import Node

AUDIT = "SYSTEM.AUDIT"
OF_USERS = f"{HOSTILE}USERS."  # prefix of the queues of users, of which nobody shows a job
_OF_USERS = ("UserCreate", "UserAlter", "UserDelete", "GrantCreate", "GrantDelete")
_ENDED = ("done", "cancelled", "failed")
# Above this number of moves in this time, the daemon may only count them.
MOVES_MAX, PERIOD_MS = 20, 60_000
_JOBS = ("purge", "move", "copy", "retry", "republish", "republish-drop")
Facts = tuple[str, object]


class AuditLaw:
    """The records of one turn, and the changes that they must describe."""

    def __init__(self, world: "Lab") -> None:
        self._world = world
        self._queue_id = -1
        self._recorded: Counter[Facts] = Counter()
        self._done: Counter[Facts] = Counter()
        self._moved_ms: deque[int] = deque(maxlen=MOVES_MAX)  # times of the last recorded moves
        self.is_guarded = False

    def durable(self, node: "Node", changes: Iterable[Change]) -> None:
        """Reads the new records of a transaction, and the jobs that ended in it."""
        self._recorded.clear()
        self._done.clear()
        found = list(changes)
        for key, _, new in found:
            if key == keys.SPACE_QUEUE + AUDIT.encode() and new is not None:
                self._queue_id = unpack(rows.unseal(key, new))["queue_id"]
            elif key == keys.GUARDED:
                self.is_guarded = new is not None
        for key, old, new in found:
            if new is None:
                continue
            if key.startswith(keys.SPACE_JOB):
                self._read_job(key, old, new)
            elif old is None and key.startswith(
                keys.lane(self._queue_id & 0xFFFFFFFF, keys.LANE_READY)
            ):
                self._read_record(node, new)

    def _read_job(self, key: bytes, old: bytes | None, new: bytes) -> None:
        before = {} if old is None else unpack(rows.unseal(key, old))
        row = unpack(rows.unseal(key, new))
        is_over = row["state"] in _ENDED and before.get("state") not in _ENDED
        if is_over and row["kind"] in _JOBS:
            self._done["JobEnd", int.from_bytes(key[keys.REST], "big")] += 1

    def _read_record(self, node: "Node", value: bytes) -> None:
        record = entries.record(node.store, entries.decode(value))
        text = bytes(record[record.find(b'{"action"') :]).decode(errors="replace")
        found, _ = json.JSONDecoder().raw_decode(text)
        action = found["action"]
        self._world.watch.happened[f"audit {action} {found['result']}"] += 1
        if action == "JobEnd":
            self._recorded["JobEnd", found["detail"]["job"]] += 1
        elif found["result"] == "OK" and action in _OF_USERS:
            self._recorded["user", found["object"]] += 1
        elif (
            found["result"] == "OK"
            and action == "QueueMove"
            and found["object"].startswith(OF_USERS)
            and not found["since_us"]  # The record is not the sum of moves that were only counted.
        ):
            self._recorded["move", found["object"]] += 1
            self._moved_ms.append(self._world.now_ms)

    def released(self, outcome: Outcome) -> None:
        """Compares the records of a turn with its answers."""
        for _, message in outcome.sends:
            if type(message) is m.Ok and type(message.value) is dict:
                self._read_answer(message.value)
        if self.is_guarded:
            missing, extra = self._done - self._recorded, self._recorded - self._done
            if self._are_many_moves:
                missing = Counter({fact: missing[fact] for fact in missing if fact[0] != "move"})
            require(not missing, "recorded_once", f"no record of {dict(missing)}")
            require(not extra, "recorded_once", f"records of no change: {dict(extra)}")
        self._recorded.clear()
        self._done.clear()

    @property
    def _are_many_moves(self) -> bool:
        moved = self._moved_ms
        return len(moved) == MOVES_MAX and self._world.now_ms - moved[0] <= PERIOD_MS

    def _read_answer(self, row: dict[str, Any]) -> None:
        if {"user", "grants"} <= row.keys():
            self._done["user", row["user"]] += 1
        elif row.get("kind") == "move" and "job" in row and row["queue"].startswith(OF_USERS):
            self._done["move", row["queue"]] += 1
