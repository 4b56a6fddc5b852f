"""Delays logins after failures, so that passwords cannot be guessed quickly.

Failures count for one user at one address: who guesses a user's password cannot lock out the user
at other addresses. Unknown users count as well, so delays do not show which users exist.
"""

from collections import OrderedDict
from typing import NamedTuple

FREE_FAILURES = 5  # failures before the first delay
DELAY_MIN_MS, DELAY_MAX_MS = 1_000, 60_000  # The delay doubles with each further failure.
FORGET_MS = 15 * 60_000
TRACKED_MAX = 10_000


class _Failures(NamedTuple):
    failures: int
    last_ms: int


class LoginDelays:
    """The failed logins of the last minutes.

    Invariant: ``_failures`` is ordered by the time of the last failure, the oldest first.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def wait_ms(self, address: str, user: str, now_ms: int) -> int:
        """Returns the time until *user* may log in at *address*, or 0 if it may do so now."""
        found = self._failures.get((address, user))
        if found is None or found.failures < FREE_FAILURES:
            return 0
        doublings = min(found.failures - FREE_FAILURES, 16)
        delay_ms = min(DELAY_MIN_MS << doublings, DELAY_MAX_MS)
        return max(found.last_ms + delay_ms - now_ms, 0)

    def failed(self, address: str, user: str, now_ms: int) -> None:
        """Counts a failed login. Failures that are old, or too many, are forgotten."""
        key = address, user
        before = self._failures.pop(key, None)
        while self._failures:
            _, oldest = next(iter(self._failures.items()))
            if now_ms - oldest.last_ms < FORGET_MS and len(self._failures) < TRACKED_MAX:
                break
            self._failures.popitem(last=False)
        if before is not None and now_ms - before.last_ms >= FORGET_MS:
            before = None
        self._failures[key] = _Failures(before.failures + 1 if before else 1, now_ms)

    def succeeded(self, address: str, user: str) -> None:
        """Forgets the failures of *user* at *address*."""
        self._failures.pop((address, user), None)
