"""Where qmctl top has its samples from: a queue manager that may be lost, and come back."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qmgr_client.aio import ConnectFailed, QueueManager, connect
from qmgr_client.client_name import client_name
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_tools.cli.failure import Failure
from qmgr_tools.top.model import Sample

ANSWER_MAX_S = 10.0  # then a queue manager that is connected counts as lost


class Lost(Exception):
    """Nothing is heard of the queue manager. The text says why."""


class Feed:
    """Asks one queue manager. A connection that is lost is made anew by the next sample."""

    def __init__(self, find: Callable[[], str], answer_max_s: float = ANSWER_MAX_S) -> None:
        """Make one. *find* is asked for the address at each try, and may raise a Failure."""
        self._find, self._address = find, ""
        self._answer_max_s = answer_max_s
        self._manager: QueueManager | None = None

    async def sample(self) -> Sample:
        """Return what the queue manager tells now.

        Raises:
            Lost: why it tells nothing.
        """
        try:
            async with asyncio.timeout(self._answer_max_s):
                return await self._ask()
        except ConnectFailed as error:
            why = f"cannot connect to {error.address}: {error.why}"
        except Failure as failure:
            why = failure.parts[1]
        except RequestError as error:
            why = f"{error.text} ({name_of(error.code)})"
        except TimeoutError:
            why = f"{self._address} has not answered for {self._answer_max_s:g} s"
        await self.close()
        raise Lost(why)

    async def _ask(self) -> Sample:
        if self._manager is None:
            self._address = self._find()
            manager = connect(self._address, name=client_name("qmctl"), reconnect=False)
            await manager.open()
            self._manager = manager
        manager = self._manager
        status, queues, links, connections = await asyncio.gather(
            manager.admin.status(),
            manager.admin.queue_list(),
            manager.admin.link_list(),
            _connections(manager),
        )
        return sample_of(status, queues, links, connections)

    async def close(self) -> None:
        """Hang up. Any number of times."""
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.close(0)


async def _connections(manager: QueueManager) -> Sequence[Mapping[str, Any]]:
    try:
        return await manager.admin.connection_list()
    except RequestError as error:
        if error.code != ErrorCode.OPERATION_UNKNOWN:
            raise
        return []  # The queue manager is older.


def sample_of(
    status: Mapping[str, Any],
    queues: Sequence[Mapping[str, Any]],
    links: Mapping[str, Any],
    connections: Sequence[Mapping[str, Any]],
) -> Sample:
    """Return what was told as a sample of now."""
    return Sample(
        time.monotonic_ns() // 1_000_000,
        status,
        queues,
        links["links"],
        links.get("inbound", []),
        connections,
    )
