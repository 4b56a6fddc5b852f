"""The load of a daemon while its history is streamed, and a witness of the history."""

import asyncio
import random
import threading
from contextlib import suppress

from qmgr_client.aio import QueueManager, connect
from qmgr_client.outgoing import Outgoing
from qmgr_protocol.errors import RequestError
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.history_feed import HistoryFeed

WAIT_MS = 60_000
QUEUES = ("ONE", "TWO")
BATCH_MAX = 20
PAUSE_MAX_S = 0.05
WITNESS, STREAM = "witness", "lake"  # names of the export cursors


async def define(address: str) -> None:
    """Creates the queues with accounting."""
    async with connect(address, name="load", wait_ms=WAIT_MS) as manager:
        for queue in QUEUES:
            await manager.admin.queue_create(queue, accounting="on", backout_threshold=3)


async def produce(address: str, rng: random.Random, stopping: asyncio.Event) -> None:
    """Puts messages in small batches. Some expire, some are urgent, and some are delayed."""
    async with connect(address, name="producer", wait_ms=WAIT_MS) as manager:
        while not stopping.is_set():
            batch = [
                Outgoing(
                    bytes(rng.randrange(300)),
                    priority=rng.choice([4, 4, 4, 9]),
                    expiry_ms=rng.choice([0, 0, 0, 300]),
                    delay_ms=rng.choice([0, 0, 0, 0, 200]),
                )
                for _ in range(rng.randint(1, BATCH_MAX))
            ]
            with suppress(RequestError):
                await manager.put_many(rng.choice(QUEUES), batch)
            await asyncio.sleep(rng.uniform(0, PAUSE_MAX_S))


async def consume(address: str, rng: random.Random, stopping: asyncio.Event, queue: str) -> None:
    """Gets messages, and settles them by various methods."""
    async with connect(address, name="consumer", wait_ms=WAIT_MS) as manager:
        while not stopping.is_set():
            with suppress(RequestError):
                await _settle(manager, rng, queue)
            await asyncio.sleep(rng.uniform(0, PAUSE_MAX_S))


async def _settle(manager: QueueManager, rng: random.Random, queue: str) -> None:
    taken = await manager.get_many(queue, BATCH_MAX, wait_ms=200)
    for message in taken[:1]:
        if rng.random() < 0.2:
            await manager.release(message)
        elif rng.random() < 0.1:
            await manager.reject(message)
        else:
            await manager.ack(message)
    await manager.ack_many(taken[1:])


class Witness:
    """A reader of all history, which releases the rows immediately.

    Invariant: ``rows`` has each row from 1 up to ``last`` once.
    """

    def __init__(self, address: str) -> None:
        self.rows: list[tuple[int, bytes]] = []
        self.store_id = ""
        self.wrong: list[str] = []
        self._address = address
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def last(self) -> int:
        """Returns the last row that was read."""
        return self.rows[-1][0] if self.rows else 0

    def start(self) -> None:
        """Starts reading."""
        with HistoryFeed(self._address, WAIT_MS) as feed:
            self.store_id = feed.state().store_id
            feed.commit(WITNESS, 0)
        self._thread.start()

    def stop(self) -> None:
        """Reads the existing rows and stops."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with HistoryFeed(self._address, WAIT_MS) as feed:
            while True:
                is_last = self._stopping.is_set()
                with suppress(ManagerAway):
                    try:
                        state = feed.state()
                        self.rows += feed.rows(self.store_id, self.last, state.last)
                        # Without the cursor, the stream could miss rows that are released now.
                        if STREAM in state.cursors:
                            feed.commit(WITNESS, self.last)
                    except (DataLost, RequestError) as error:
                        self.wrong.append(f"the witness: {error}")
                        return
                    if is_last:
                        return
                self._stopping.wait(0.2)
