"""The time of a flush, which decides whether turns wait for it or go on during it.

    records:   m  m  m  |  a  a  a  ...  a  m  a  a  a  ...
                        └─ a flush takes more than SLOW_S

    m: a record that the turn waits for, which is measured
    a: a record on another thread, while turns go on

A record on the other thread cannot be measured: its end would include the time in which that thread
waits until the thread of the turns lets it continue. So one of UNMEASURED_MAX records is measured.
"""

from dataclasses import dataclass

# If a flush takes longer than SLOW_S, turns go on during it. Below FAST_S, they wait for it again:
# a fast flush costs less than another thread. (ADR 24)
SLOW_S, FAST_S = 0.002, 0.001
RECORD_S_PER_BYTE = 1e-9  # the time of a record without its flush: to pack, check and copy it
UNMEASURED_MAX = 64


@dataclass
class FlushTime:
    """The time of a flush, in seconds, as a moving average."""

    seconds: float = 0.0
    _is_slow: bool = False
    _unmeasured: int = 0  # the number of records since the last one that was measured

    def measured(self, took_s: float, record_bytes: int) -> None:
        """Counts the time of a record that a turn waited for."""
        self._unmeasured = 0
        self.seconds += (took_s - record_bytes * RECORD_S_PER_BYTE - self.seconds) / 8

    def unmeasured(self) -> None:
        """Counts a record on the other thread."""
        self._unmeasured += 1

    def lets_turns_go_on(self) -> bool:
        """Returns whether turns should go on during the next flush."""
        self._is_slow = self.seconds > (FAST_S if self._is_slow else SLOW_S)
        return self._is_slow and self._unmeasured < UNMEASURED_MAX

    def is_saved_by(self, record_bytes: int) -> bool:
        """Returns whether a record probably takes less time than the flush that it saves."""
        return record_bytes * RECORD_S_PER_BYTE < self.seconds
