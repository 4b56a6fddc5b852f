"""Reads the samples of qmctl top, and reconnects if the connection is lost."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qmgr_client.aio import ConnectFailed, QueueManager, connect
from qmgr_client.client_name import client_name
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_tools.cli.failure import Failure
from qmgr_tools.context import tls as tls_options
from qmgr_tools.context.file import KeptTls
from qmgr_tools.context.user import arguments
from qmgr_tools.top.model import Sample

if TYPE_CHECKING:
    from qmgr_client.credentials import Login

ANSWER_MAX_S = 10.0  # time after which a queue manager that does not answer counts as lost


class NoAnswer(Exception):
    """The error if the queue manager does not answer. The text states the reason."""


class Feed:
    """A reader of one queue manager. After a lost connection, the next sample reconnects."""

    def __init__(
        self,
        find: Callable[[], str],
        answer_max_s: float = ANSWER_MAX_S,
        login: "Login | None" = None,
        tls: KeptTls | None = None,
    ) -> None:
        """Creates a feed. *find* returns the address for each attempt, and may raise a Failure."""
        self._login, self._tls = arguments(login), tls_options.arguments(tls)
        self._find, self._address = find, ""
        self._answer_max_s = answer_max_s
        self._manager: QueueManager | None = None

    async def sample(self) -> Sample:
        """Returns the current state of the queue manager.

        Raises:
            NoAnswer: If the queue manager does not answer.
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
        raise NoAnswer(why)

    async def _ask(self) -> Sample:
        if self._manager is None:
            self._address = self._find()
            manager = connect(
                self._address,
                name=client_name("qmctl"),
                reconnect=False,
                **self._login,
                **self._tls,
            )
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
        """Closes the connection. Further calls have no effect."""
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.close(0)


async def _connections(manager: QueueManager) -> Sequence[Mapping[str, Any]]:
    try:
        return await manager.admin.connection_list()
    except RequestError as error:
        if error.code != ErrorCode.OPERATION_UNKNOWN:
            raise
        return []  # An older queue manager lacks this operation.


def sample_of(
    status: Mapping[str, Any],
    queues: Sequence[Mapping[str, Any]],
    links: Mapping[str, Any],
    connections: Sequence[Mapping[str, Any]],
) -> Sample:
    """Returns a sample with the current time."""
    return Sample(
        time.monotonic_ns() // 1_000_000,
        status,
        queues,
        links["links"],
        links.get("inbound", []),
        connections,
    )
