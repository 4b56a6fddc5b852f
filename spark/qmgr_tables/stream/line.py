"""A connection to a queue manager that runs, for what streams and exports read.

A queue manager that is away is waited for, as it may be started anew; what was under way is asked
again, which is safe where it is asked to read.
"""

import time
from collections.abc import Callable
from math import ceil
from types import TracebackType
from typing import Self, TypeVar

from qmgr_client.blocking import Client, connect
from qmgr_client.errors import ConnectFailed, ConnectionEnded, UnknownOutcome
from qmgr_config.units import ms_text
from qmgr_protocol.errors import ErrorClass, RequestError

RETRY_MS = 200
Value = TypeVar("Value")


class DataLost(Exception):
    """What was to be read is not there any more, or never was: where, what, what to do."""


class ManagerAway(Exception):
    """A queue manager that did not answer for as long as is waited for."""


class Line:
    """A connection to one queue manager.

    Invariant: ``_client`` is connected, or was when it last answered, or is None.
    """

    def __init__(self, address: str, wait_ms: int, name: str) -> None:
        """Connects to the queue manager at *address* once it is asked something.

        Args:
            wait_ms: how long a queue manager is waited for that is away.
            name: what the client is called there.
        """
        self.address = address
        self._wait_ms = wait_ms
        self._name = name
        self._client: Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. Any number of times."""
        client, self._client = self._client, None
        if client is not None:
            client.close(0)

    def ask(self, ask: Callable[[Client], Value], wait_ms: int | None = None) -> Value:
        """Returns the answer.

        Args:
            wait_ms: None waits as long as the line does.

        Raises:
            ManagerAway: nobody answers.
            RequestError: it is refused.
        """
        wait_ms = self._wait_ms if wait_ms is None else wait_ms
        until_s = time.monotonic() + wait_ms / 1_000
        while True:
            left_ms = max(ceil((until_s - time.monotonic()) * 1_000), 0)
            was_connected = self._client is not None
            try:
                return ask(self._connected(left_ms))
            except ConnectFailed as error:
                raise ManagerAway(f"{error}; it was waited for {ms_text(wait_ms)}") from error
            except RequestError as error:
                if not _is_passing(error):
                    raise
                self.close()
                if was_connected:  # It may be there again, as another process.
                    continue
                if time.monotonic() >= until_s:
                    raise ManagerAway(
                        f"{self.address}: {error}; it was waited for {ms_text(wait_ms)}"
                    ) from error
            time.sleep(min(RETRY_MS, left_ms) / 1_000)

    def _connected(self, wait_ms: int) -> Client:
        if self._client is None:
            client = connect(self.address, name=self._name, reconnect=False, wait_ms=wait_ms)
            client.open()
            self._client = client
        return self._client


def _is_passing(error: RequestError) -> bool:
    """Returns whether the same may be answered later, on a new connection."""
    if isinstance(error, ConnectionEnded | UnknownOutcome):
        return True
    return error.error_class is ErrorClass.RETRY_LATER
