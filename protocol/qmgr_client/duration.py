"""Durations: whole milliseconds or a timedelta.

    queue_manager.get("ORDERS", wait_ms=5_000)
    queue_manager.get("ORDERS", wait_ms=timedelta(seconds=5))

Every parameter, option and attribute whose name ends in ``_ms`` is a duration.
"""

from datetime import timedelta
from typing import TypeAlias

from qmgr_protocol.errors import ErrorCode, RequestError

Duration: TypeAlias = int | timedelta  # whole milliseconds or a timedelta

_MILLISECOND = timedelta(milliseconds=1)
_NOTHING = timedelta(0)


def in_ms(name: str, duration: Duration) -> int:
    """Returns *duration* in milliseconds, rounded up.

    Args:
        name: The name of the parameter, for error messages.
        duration: Whole milliseconds or a timedelta.

    Raises:
        RequestError: VALUE_INVALID if the timedelta is negative or the type is wrong.
    """
    if type(duration) is int:
        return duration
    if not isinstance(duration, timedelta):
        text = (
            f"{name} is of type {type(duration).__name__}, not a duration: "
            "pass whole milliseconds or a timedelta"
        )
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if duration < _NOTHING:
        raise RequestError(ErrorCode.VALUE_INVALID, f"{name} is negative: {duration}")
    whole, rest = divmod(duration, _MILLISECOND)
    return whole + bool(rest)


def in_ms_or_none(name: str, duration: Duration | None) -> int | None:
    """Returns *duration* in milliseconds, or None if *duration* is None."""
    return None if duration is None else in_ms(name, duration)
