"""The circuit breaker pauses delivery when most messages fail, as the backend is probably down.

          share of failures reached            pause over
    CLOSED ────────────────────────▶ OPEN ─────────────────▶ PROBING: one message is delivered
       ▲                              ▲                          │
       │          it is consumed      └──── it fails ────────────┤
       └─────────────────────────────────────────────────────────┘

Without the breaker, every message would fail in turn and become a dead letter. The breaker counts
the consumed and failed messages of the last two half windows.
"""

from collections.abc import Container
from enum import Enum

from qmgr_protocol.messages import DELIVERY
from qmgrd.core.layout.bounds import Bounds


class BreakerState(Enum):
    """The state of a breaker, which determines whether messages are delivered."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """The breaker of one queue. Its state is in memory only, so a restart closes the breaker."""

    __slots__ = ("_half_ms", "_now", "_then", "probe", "state", "until_ms")

    def __init__(self) -> None:
        self.state = BreakerState.CLOSED
        self.until_ms = 0  # the time, in state OPEN, at which one message is delivered as a probe
        self.probe = 0  # the arrival number of the probe, in state PROBING; 0 before its delivery
        self._half_ms = 0  # the start of the newer half of the window
        self._now = [0, 0]  # numbers of consumed and failed messages in the newer half
        self._then = [0, 0]  # numbers of consumed and failed messages in the older half

    def note(self, bounds: Bounds, now_ms: int, consumed: int, failed: int) -> BreakerState | None:
        """Counts consumed and failed messages. Returns the new state, or None if unchanged."""
        if not bounds.breaker_percent:
            return None
        if self.state is BreakerState.PROBING:
            if failed:
                return self._open(bounds, now_ms)
            return self._close() if consumed else None
        self._roll(bounds, now_ms)
        self._now[0] += consumed
        self._now[1] += failed
        if self.state is BreakerState.OPEN or not failed:
            return None
        failures = self._now[1] + self._then[1]
        total = failures + self._now[0] + self._then[0]
        if (
            total >= bounds.breaker_messages_min
            and 100 * failures >= bounds.breaker_percent * total
        ):
            return self._open(bounds, now_ms)
        return None

    def allowance(self, now_ms: int, leases: Container[int]) -> int | None:
        """Returns the number of messages that may be delivered now; None means no limit.

        Args:
            now_ms: The time of the store clock.
            leases: The leases by arrival number. The probe ends when its lease ends.
        """
        if self.state is BreakerState.CLOSED:
            return None
        if self.state is BreakerState.OPEN and now_ms >= self.until_ms:
            self.state, self.probe = BreakerState.PROBING, 0
        if self.probe not in leases:
            self.probe = 0
        return int(self.state is BreakerState.PROBING and not self.probe)

    def altered(self, bounds: Bounds) -> BreakerState | None:
        """Closes the breaker if *bounds* disable it. Returns the new state if it changed."""
        if bounds.breaker_percent or self.state is BreakerState.CLOSED:
            return None
        return self._close()

    def handed(self, items: list[bytes]) -> None:
        """Remembers the first of the delivery *items* as the probe if a probe is due."""
        if self.state is BreakerState.PROBING:
            self.probe = DELIVERY.unpack_from(items[0])[1]

    def _open(self, bounds: Bounds, now_ms: int) -> BreakerState:
        self.state, self.until_ms = BreakerState.OPEN, now_ms + bounds.breaker_pause_ms
        self._now, self._then = [0, 0], [0, 0]
        return self.state

    def _close(self) -> BreakerState:
        self.state = BreakerState.CLOSED
        self._now, self._then = [0, 0], [0, 0]
        return self.state

    def _roll(self, bounds: Bounds, now_ms: int) -> None:
        half_ms = bounds.breaker_window_ms // 2
        if now_ms - self._half_ms < half_ms:
            return
        is_next = now_ms - self._half_ms < 2 * half_ms
        self._then = self._now if is_next else [0, 0]
        self._now, self._half_ms = [0, 0], now_ms
