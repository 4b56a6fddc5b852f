"""The queue managers of a stream, some of which may be unavailable for a while."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from qmgr_tables.stream.connection import DataLost, ManagerAway

REST_S = 1.0  # minimum pause before an unavailable queue manager is asked again
REST_DIALS = 10  # in multiples of the time that the attempt took
REST_ASKS = 9  # in multiples of the slowest answer, before all are asked again; at most REST_S
log = logging.getLogger(__name__)


class _State(Protocol):
    @property
    def store_id(self) -> str: ...


State = TypeVar("State", bound=_State)
# Asks one queue manager for its state, waiting that many ms; None waits as long as a stream does.
Ask = Callable[[int | None], State]


class Managers(Generic[State]):
    """Queue managers by address.

    Invariant: ``at`` has the last address and state of each store that was seen.
    """

    def __init__(self, asks: Mapping[str, Ask[State]], wait_ms: int) -> None:
        """Prepares calls of *asks*; a queue manager may be unavailable for *wait_ms*."""
        self.at: dict[str, tuple[str, State]] = {}
        self.away: dict[str, tuple[float, float]] = {}  # since when, and when to ask again
        self._asks = asks
        self._wait_ms = wait_ms
        self._again_s = 0.0  # when those that answered may be asked again

    def states(self, *, wait: bool) -> list[tuple[str, State]]:
        """Returns address and state of all queue managers that answer.

        Without *wait* there is a pause between two calls: a query without a trigger asks a hundred
        times per second, and the answer is large if there are many queues.

        Args:
            wait: whether to wait for unavailable queue managers.

        Raises:
            ManagerAway: one has been unavailable for too long.
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
                log.warning("qmgr: %s; the stream continues without it for now", error)
                # A slow connection attempt must not delay the others repeatedly.
                self.away[url] = since_s, now_s + max(REST_S, REST_DIALS * spent_s)
                continue
            self.away.pop(url, None)
            self.at[state.store_id] = url, state
            found.append((url, state))
            slowest_s = max(slowest_s, time.monotonic() - now_s)
        self._again_s = time.monotonic() + min(REST_ASKS * slowest_s, REST_S)
        return found

    def find(self, store_id: str) -> tuple[str, State]:
        """Returns address and state of a store, waiting for queue managers.

        Raises:
            ManagerAway: one has been unavailable for too long.
            DataLost: all answer, and none of them has the store.
        """
        if store_id not in self.at:
            self.states(wait=True)
        if store_id not in self.at:
            raise DataLost(
                f"{', '.join(self._asks)}: store {store_id} of the checkpoint is at none of these: "
                "name the address of its queue manager"
            )
        return self.at[store_id]
