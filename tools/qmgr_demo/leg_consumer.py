"""A consumer of legs, as a process of its own: it may be killed at any moment.

    python -m qmgr_demo.leg_consumer ADDRESS NAME WORK_MS

What it did it writes down in the unit of work that removes the leg: both happen, or neither.
"""

import asyncio
import sys

from qmgr_client.aio import QueueManager, connect
from qmgr_client.message import Message
from qmgr_demo.legs import Flown
from qmgr_protocol.errors import ErrorCode, RequestError

LEGS, FLOWN = "LEGS", "LEGS.FLOWN"
PREFETCH = 8
WAIT_MS = 60_000


class LegConsumer:
    """Does one leg after the other.

    Invariant: ``_did`` has the number of the last leg done of each aircraft that is with it.
    """

    def __init__(self, manager: QueueManager, name: str, work_ms: int) -> None:
        self._manager = manager
        self._name = name
        self._work_ms = work_ms
        self._did: dict[bytes, int] = {}

    async def run(self) -> None:
        """Consumes until cancelled."""
        async for message in self._manager.consume(LEGS, PREFETCH, groups="pinned"):
            await asyncio.sleep(self._work_ms / 1000)  # what an application would do
            try:
                await self._do(message)
            except RequestError as error:
                if error.code not in (ErrorCode.LEASE_LOST, ErrorCode.UNIT_BACKED_OUT):
                    raise  # Else it comes again.

    async def _do(self, message: Message) -> None:
        """Writes a leg down and removes it, together."""
        flown = self._noted(message)
        async with self._manager.unit_of_work() as unit:
            await unit.ack(message)
            await unit.put(FLOWN, b"", headers=flown._asdict())
        if flown.aircraft:
            self._did[message.group_id] = message.group_number

    def _noted(self, message: Message) -> Flown:
        """Returns what is written down of a leg, and begin with its aircraft if that is new here."""
        aircraft = message.group_id.rstrip(b"\0").decode()
        before = message.group_number - 1
        if message.taken_over:
            self._did[message.group_id] = before  # What an application kept of it is not valid.
        was_told = not aircraft or self._did.get(message.group_id) == before
        return Flown(
            aircraft,
            message.group_number,
            message.group_last,
            message.headers["row"],
            self._name,
            message.redelivered != "no",
            message.taken_over,
            was_told,
        )


async def main(address: str, name: str, work_ms: int) -> None:
    """Consumes until killed."""
    async with connect(address, name=f"legs.{name}", wait_ms=WAIT_MS) as manager:
        await LegConsumer(manager, name, work_ms).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
