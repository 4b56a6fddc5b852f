"""Slows logins down after failures, so that passwords cannot be guessed quickly.

Failures count for one user at one source. After some failures, a delay begins. It doubles with each
further failure, up to one minute. During a delay, no login of this user from this source is
checked, not even with the right password: otherwise the delay would slow no guesses down. After the
delay, the right password is accepted as usual. It forgets the failures of clients with a session,
but not those of an address: a stranger there would have more guesses after each login of the user,
and would learn from them that the user exists.

The source is the address of the client. Clients that prove a session with their hello are a source
of their own at each address. Only a client that once logged in as the user can prove a session. So
these logins are never delayed by a stranger who guesses the password of the same user:

* logins from other addresses
* logins of clients that reconnect, also from the address of the stranger (a NAT, or loopback)

A stranger can delay only a *new* client at the same address. Nothing in its login distinguishes
this client from the stranger before its password is checked.

Unknown users count as well, so delays do not show which users exist. Each source has a limited
number of counts, because a stranger can invent users. The failures of further users at this source
have one count together. Otherwise, invented users could replace the count of a real one. An
attacker with many addresses can still replace the oldest counts, because their number is limited as
well. Addresses of one /64 network of IPv6 are one source, because one host may use all of them. For
the same reason, all loopback addresses are one source.
"""

from collections import Counter, OrderedDict
from ipaddress import ip_address
from typing import NamedTuple

from qmgrd.core.access.origin import network_of

FREE_FAILURES = 5  # failures before the first delay
DELAY_MIN_MS, DELAY_MAX_MS = 1_000, 60_000  # The delay doubles with each further failure.
FORGET_MS = 15 * 60_000
TRACKED_MAX = 10_000
USERS_MAX = 100  # users at one source with a count of their own
_FURTHER = ""  # the key of the further users at a source
_SESSIONS, _LOOPBACK = "sessions at ", "loopback"


class _Failures(NamedTuple):
    failures: int
    last_ms: int


class LoginDelays:
    """The failed logins of the last minutes.

    Invariant: ``_failures`` is ordered by the time of the last failure, the oldest first.
        ``_counts`` has the number of its entries for each source.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def wait_ms(self, source: str, user: str, now_ms: int) -> int:
        """Returns the time until *user* may log in from *source*, or 0 if it may do so now."""
        found = self._failures.get(self._key(source, user))
        if found is None or found.failures < FREE_FAILURES:
            return 0
        doublings = min(found.failures - FREE_FAILURES, 16)
        delay_ms = min(DELAY_MIN_MS << doublings, DELAY_MAX_MS)
        return max(found.last_ms + delay_ms - now_ms, 0)

    def failed(self, source: str, user: str, now_ms: int) -> None:
        """Counts a failed login. Failures that are old, or too many, are forgotten."""
        while self._failures:
            oldest, (_, last_ms) = next(iter(self._failures.items()))
            if now_ms - last_ms < FORGET_MS:
                break
            self._forget(oldest)
        key = self._key(source, user)
        before = self._forget(key)
        if len(self._failures) >= TRACKED_MAX:
            self._forget(next(iter(self._failures)))
        self._failures[key] = _Failures(before.failures + 1 if before else 1, now_ms)
        self._counts[source] += 1

    def succeeded(self, source: str, user: str) -> None:
        """Forgets the failures of *user* at *source*, if its clients have a session there."""
        if source.startswith(_SESSIONS):
            self._forget((source, user))

    def _key(self, source: str, user: str) -> tuple[str, str]:
        """Returns the key of the count of *user*, which may be the one of further users."""
        key = source, user
        if key not in self._failures and self._counts[source] >= USERS_MAX:
            return source, _FURTHER
        return key

    def _forget(self, key: tuple[str, str]) -> _Failures | None:
        found = self._failures.pop(key, None)
        if found is not None:
            source, _ = key
            self._counts[source] -= 1
            if not self._counts[source]:
                del self._counts[source]
        return found


def source_of(address: str, session_id: bytes) -> str:
    """Returns the source of a login from *address*.

    All sessions at an address are one source, so many old sessions allow no more guesses.

    Args:
        address: The address of the client, or "unix".
        session_id: The session of the user that the client proves, or b"".
    """
    host = _host_of(address)
    return f"{_SESSIONS}{host}" if session_id else host


def _host_of(address: str) -> str:
    """Returns *address*, or the addresses from which its host can choose."""
    network = network_of(address)
    try:
        return _LOOPBACK if ip_address(network).is_loopback else network
    except ValueError:  # an IPv6 network, or "unix"
        return network
