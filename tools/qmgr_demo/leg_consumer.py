"""A consumer of legs, as a separate process that may be killed at any moment.

    python -m qmgr_demo.leg_consumer ADDRESS NAME WORK_MS

The consumer records each leg in the unit of work that removes the leg, so either both happen or
neither does.
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
    """A consumer that processes one leg after the other.

    Invariant: ``_did`` has the number of the last processed leg for each assigned aircraft.
    """

    def __init__(self, manager: QueueManager, name: str, work_ms: int) -> None:
        self._manager = manager
        self._name = name
        self._work_ms = work_ms
        self._did: dict[bytes, int] = {}

    async def run(self) -> None:
        """Consumes until cancelled."""
        async for message in self._manager.consume(LEGS, PREFETCH, groups="pinned"):
            await asyncio.sleep(self._work_ms / 1000)  # simulates the work of an application
            try:
                await self._do(message)
            except RequestError as error:
                if error.code not in (ErrorCode.LEASE_LOST, ErrorCode.UNIT_BACKED_OUT):
                    raise  # Otherwise the leg is delivered again.

    async def _do(self, message: Message) -> None:
        """Records a leg and removes its message in one unit of work."""
        flown = self._noted(message)
        async with self._manager.unit_of_work() as unit:
            await unit.ack(message)
            await unit.put(FLOWN, b"", headers=flown._asdict())
        if flown.aircraft:
            self._did[message.group_id] = message.group_number

    def _noted(self, message: Message) -> Flown:
        """Returns the record of a leg. Starts counting again if the aircraft was just assigned."""
        aircraft = message.group_id.rstrip(b"\0").decode()
        before = message.group_number - 1
        if message.taken_over:
            # An application would discard its cached state of the aircraft.
            self._did[message.group_id] = before
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
