"""A connection to a running queue manager, for streams and exports.

If the queue manager is unavailable, for example during a restart, the connection waits for it.
Interrupted requests are sent again, which is safe because the requests only read.
"""

import time
from collections.abc import Callable
from math import ceil
from types import TracebackType
from typing import Self, TypeVar

from qmgr_client.blocking import Client, connect
from qmgr_client.errors import ConnectFailed, ConnectionEnded, UnknownOutcome
from qmgr_config.units import ms_text
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access

RETRY_MS = 200
# With these, the same login fails again.
LOGIN_ERRORS = (ErrorCode.LOGIN_REQUIRED, ErrorCode.LOGIN_FAILED, ErrorCode.LOGIN_REFUSED)
Value = TypeVar("Value")


class DataLost(Exception):
    """Data to read is lost or never existed.

    The text states the data, its source, and what to do.
    """


class ManagerAway(Exception):
    """A queue manager did not answer within the allowed time."""


class Connection:
    """A connection to one queue manager.

    Invariant: ``_client`` is None, or was connected at its last answer.
    """

    def __init__(
        self, address: str, wait_ms: int, name: str, access: Access = BY_ENVIRONMENT
    ) -> None:
        """Prepares a connection to the queue manager at *address*. The first request connects.

        Args:
            wait_ms: The time to wait for an unavailable queue manager.
            name: The name of the client.
            access: How to log in, and how to check the certificate.
        """
        self.address = address
        self._wait_ms = wait_ms
        self._name = name
        self._access = access
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
        """Closes the connection. Further calls have no effect."""
        client, self._client = self._client, None
        if client is not None:
            client.close(0)

    def ask(self, ask: Callable[[Client], Value], wait_ms: int | None = None) -> Value:
        """Calls *ask* with a connected client and returns the result.

        Args:
            wait_ms: The time to wait. None means the wait_ms of the connection.

        Raises:
            ManagerAway: The queue manager does not answer.
            RequestError: The request is refused.
        """
        wait_ms = self._wait_ms if wait_ms is None else wait_ms
        until_s = time.monotonic() + wait_ms / 1_000
        while True:
            left_ms = max(ceil((until_s - time.monotonic()) * 1_000), 0)
            was_connected = self._client is not None
            try:
                return ask(self._connected(left_ms))
            except ConnectFailed as error:
                raise ManagerAway(f"{error}; waited for {ms_text(wait_ms)}") from error
            except RequestError as error:
                if not _is_passing(error):
                    raise
                self.close()
                if was_connected:  # The queue manager may have restarted.
                    continue
                if time.monotonic() >= until_s:
                    raise ManagerAway(
                        f"{self.address}: {error}; waited for {ms_text(wait_ms)}"
                    ) from error
            time.sleep(min(RETRY_MS, left_ms) / 1_000)

    def _connected(self, wait_ms: int) -> Client:
        if self._client is None:
            client = connect(
                self.address,
                name=self._name,
                reconnect=False,
                wait_ms=wait_ms,
                **self._access.arguments(self.address),
            )
            client.open()
            self._client = client
        return self._client


def _is_passing(error: RequestError) -> bool:
    """Returns whether a retry on a new connection may succeed."""
    if error.code in LOGIN_ERRORS:
        return False
    if isinstance(error, ConnectionEnded | UnknownOutcome):
        return True
    return error.error_class is ErrorClass.RETRY_LATER
