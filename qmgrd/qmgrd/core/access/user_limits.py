"""The limits of one user, and the errors if a user reaches them.

A limit is a number. 0 means unlimited. Limits that are not set for a user have the default of
[user_defaults]. A limit below the present use ends nothing: only further uses are refused.
"""

from collections.abc import Mapping
from typing import NamedTuple

from qmgr_config.user_defaults import UserDefaults
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import USER_LIMITS

RETRY_MS = 1_000


class UserLimits(NamedTuple):
    """The limits in force for one user. Each one is 0 if it is unlimited."""

    connections_max: int = 0
    streams_max: int = 0
    producers_max: int = 0
    consumers_max: int = 0
    queues_max: int = 0
    subscriptions_max: int = 0
    stored_bytes_max: int = 0
    puts_per_s_max: int = 0
    put_bytes_per_s_max: int = 0
    unread_bytes_max: int = 0


UNLIMITED = UserLimits()


class _Reached(NamedTuple):
    """The error of a limit: its code, the noun of what is counted, and the remedy."""

    code: ErrorCode
    noun: str
    remedy: str


_REACHED = {
    "connections_max": _Reached(
        ErrorCode.USER_CONNECTIONS_EXHAUSTED, "open connection", "close some"
    ),
    "streams_max": _Reached(
        ErrorCode.USER_STREAMS_EXHAUSTED, "open stream", "close some producers"
    ),
    "producers_max": _Reached(
        ErrorCode.USER_PRODUCERS_EXHAUSTED,
        "remembered producer",
        "try again once one has been unused for 10 minutes",
    ),
    "consumers_max": _Reached(
        ErrorCode.USER_CONSUMERS_EXHAUSTED, "open consumer", "close some consumers or gets"
    ),
    "queues_max": _Reached(ErrorCode.USER_QUEUES_EXHAUSTED, "queue", "delete some"),
    "subscriptions_max": _Reached(
        ErrorCode.USER_SUBSCRIPTIONS_EXHAUSTED, "subscription", "end some"
    ),
}


def in_force(defaults: UserDefaults, own: Mapping[str, int]) -> UserLimits:
    """Returns the limits of a user with these *own* limits. The others have their *defaults*."""
    return UserLimits(*(own.get(name, getattr(defaults, name)) for name in UserLimits._fields))


def check_value(user: str, name: str, value: object) -> int:
    """Returns *value* as the limit *name* of *user*.

    Raises:
        RequestError: VALUE_INVALID if the value is not an integer in the range of the limit.
    """
    known = USER_LIMITS[name]
    if type(value) is int and known.low <= value <= known.high:
        return value
    raise RequestError(
        ErrorCode.VALUE_INVALID,
        f"{name} of user {user}: {str(value)[:80]!r} is not an integer from {known.low} to "
        f"{known.high}; 0 is unlimited",
    )


def changed(user: str, own: Mapping[str, int], name: str, value: object) -> dict[str, int]:
    """Returns the *own* limits of *user* after a change of one. None restores the default.

    Raises:
        RequestError: See :func:`check_value`.
    """
    limits = {key: limit for key, limit in own.items() if key != name}
    return limits if value is None else limits | {name: check_value(user, name, value)}


def reached_error(user: str, name: str, used: int, limit: int) -> RequestError:
    """Returns the error for a further use by *user*, who has reached the limit *name*."""
    found = _REACHED[name]
    return RequestError(
        found.code,
        f"user {user} has {amount(used, found.noun)}, and its limit is {limit} ({name}); "
        f"{found.remedy}, or raise the limit",
        RETRY_MS,
    )
