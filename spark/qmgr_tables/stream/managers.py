"""The queue managers of a stream. Some of them may be temporarily unavailable."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from qmgr_tables.stream.connection import DataLost, ManagerAway

REST_S = 1.0  # minimum pause before an unavailable queue manager is asked again
REST_DIALS = 10  # the same pause, as a multiple of the time that the attempt took
# pause before all queue managers are asked again, as a multiple of the time of the slowest answer;
# at most REST_S
REST_ASKS = 9
log = logging.getLogger(__name__)


class _State(Protocol):
    @property
    def store_id(self) -> str: ...


State = TypeVar("State", bound=_State)
# Asks a queue manager for its state and waits for the given time in ms. None means the wait time of
# the stream.
Ask = Callable[[int | None], State]


class Managers(Generic[State]):
    """Queue managers by address.

    Invariant: ``at`` has the last known address and state of each store.
    """

    def __init__(self, asks: Mapping[str, Ask[State]], wait_ms: int) -> None:
        """Prepares calls of *asks*. A queue manager may be unavailable for up to *wait_ms*."""
        self.at: dict[str, tuple[str, State]] = {}
        # unavailable queue managers: (start of the outage, time of the next attempt)
        self.away: dict[str, tuple[float, float]] = {}
        self._asks = asks
        self._wait_ms = wait_ms
        self._again_s = 0.0  # time from which available queue managers may be asked again

    def states(self, *, wait: bool) -> list[tuple[str, State]]:
        """Returns the address and the state of each queue manager that answers.

        Without *wait*, the method pauses between two requests. A query without a trigger calls the
        method a hundred times per second, and the answer is large if the queue manager has many
        queues.

        Args:
            wait: Whether to wait for unavailable queue managers.

        Raises:
            ManagerAway: A queue manager has been unavailable for too long.
        """
        found, slowest_s = [], 0.0
        if not wait:
            time.sleep(max(self._again_s - time.monotonic(), 0))
        for url, ask in self._asks.items():
            now_s = time.monotonic()
            since_s, again_s = self.away.get(url, (now_s, now_s))
            if not wait and now_s < again_s:
                continue
            try:
                state = ask(None if wait else 0)
            except ManagerAway as error:
                spent_s, now_s = time.monotonic() - now_s, time.monotonic()
                if wait or (now_s - since_s) * 1_000 >= self._wait_ms:
                    raise
                log.warning(
                    "qmgr: %s; the stream continues without this queue manager for now", error
                )
                # A slow connection attempt must not delay the other queue managers repeatedly.
                self.away[url] = since_s, now_s + max(REST_S, REST_DIALS * spent_s)
                continue
            self.away.pop(url, None)
            self.at[state.store_id] = url, state
            found.append((url, state))
            slowest_s = max(slowest_s, time.monotonic() - now_s)
        self._again_s = time.monotonic() + min(REST_ASKS * slowest_s, REST_S)
        return found

    def find(self, store_id: str) -> tuple[str, State]:
        """Returns the address and the state of a store. Waits for unavailable queue managers.

        Raises:
            ManagerAway: A queue manager has been unavailable for too long.
            DataLost: All queue managers answer, and none has the store.
        """
        if store_id not in self.at:
            self.states(wait=True)
        if store_id not in self.at:
            raise DataLost(
                f"{', '.join(self._asks)}: none of these has store {store_id} of the checkpoint: "
                "name the address of its queue manager"
            )
        return self.at[store_id]
