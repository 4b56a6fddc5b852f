"""The history of killed daemons, exported under load and checked against the clients' answers."""

import asyncio
import random
from collections import Counter
from typing import Any

from qmgr_demo.security import User
from qmgr_protocol.errors import RequestError
from tests.process.load import Load, Reached
from tests.qmgrd.core.past import Told, replay, tell

CURSOR = "CRASH"
USER = User("export", grants=[(["history"], "manager", ""), (["export"], "cursor", CURSOR)])
FORGETS = 0.05  # fraction of the reads after which the export crashes and asks for its cursor


class HistoryLoad:
    """An export of a daemon's history. Invariant: ``rows`` has all rows up to its position."""

    def __init__(self, node: Reached, seed: int) -> None:
        self.node = node
        self.name = f"history of {node.name}"
        self.rows: dict[int, bytes] = {}
        self.wrong: list[str] = []
        self.forgot = 0
        self.stopping = asyncio.Event()
        self._random = random.Random(seed)

    async def run(self) -> None:
        """Exports until a stop is requested, then exports the rest."""
        async with self.node.connect("export", USER.name) as manager:
            after = (await manager.admin.cursor_commit(CURSOR, 0))["position"]
            while True:
                is_last = self.stopping.is_set()
                try:
                    found = (await manager.admin.history_read(after))["rows"]
                    after = self._write(after, found)
                    if self._random.random() < FORGETS:
                        self.forgot += 1
                        after = (await manager.admin.cursor_commit(CURSOR, 0))["position"]
                    elif found:
                        await manager.admin.cursor_commit(CURSOR, after)
                except RequestError as error:
                    self.wrong.append(error.text)
                    return
                if not found:
                    if is_last:
                        return
                    await asyncio.sleep(0.1)

    def _write(self, after: int, found: list[list[Any]]) -> int:
        for seq, data in found:
            if seq != after + 1 or self.rows.setdefault(seq, data) != data:
                self.wrong.append(f"row {seq} after {after} is missing or has changed")
            after = seq
        return after

    def faults(self, load: Load) -> dict[str, list[str]]:
        """Returns the differences between the history of the queue of *load* and the answers."""
        told = [
            one
            for seq in sorted(self.rows)
            for one in tell(seq, self.rows[seq])
            if one.queue == load.get_from
        ]
        puts, settled = _count(told, "put"), _count(told, "settled")
        found = {
            "export": list(self.wrong),
            "put but not recorded once": [uid for uid in load.put_uids if puts[uid] != 1],
            "settled but not recorded once": [
                uid for uid in load.settled_uids if settled[uid] != 1
            ],
            "recorded twice": [uid for some in (puts, settled) for uid in some if some[uid] > 1],
            "not possible": [],
        }
        try:
            replay(told)
        except AssertionError as error:
            found["not possible"].append(str(error))
        return found


def _count(told: list[Told], event: str) -> Counter[str]:
    return Counter(one.message_id for one in told if one.event == event)
