"""Parses times: ISO 8601, or seconds since 1970."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MAX = 253_402_300_799  # the last second of the year 9999


class InstantInvalid(ValueError):
    """An invalid time. The text states the valid formats."""


def parse(text: str) -> int:
    """Returns the time *text* in microseconds since 1970. A time without an offset is in UTC.

    Raises:
        InstantInvalid: *text* is not a valid time.
    """
    found = re.fullmatch("([0-9]{1,20})(?:[.]([0-9]{1,6}))?", text.strip(), re.ASCII)
    if found:
        seconds = int(found[1])
        if seconds > _SECOND_MAX:
            raise InstantInvalid(f"{text[:80]!r} is after the year 9999; use whole seconds")
        return seconds * 1_000_000 + int((found[2] or "").ljust(6, "0"))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InstantInvalid(
            f"{text[:80]!r} is not a valid time; use 2024-05-01, 2024-05-01T12:30:00Z, or seconds "
            "since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return micros(moment)


def micros(moment: datetime) -> int:
    """Returns *moment* in microseconds since 1970. *moment* must have a time zone."""
    return (moment - _EPOCH) // timedelta(microseconds=1)
