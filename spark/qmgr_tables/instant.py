"""Parses points in time: ISO 8601, or seconds since 1970."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MAX = 253_402_300_799  # the end of the year 9999


class InstantInvalid(ValueError):
    """An invalid point in time; the text says what to write."""


def parse(text: str) -> int:
    """Returns *text* in microseconds since 1970; without an offset it is in UTC.

    Raises:
        InstantInvalid: *text* is not a point in time.
    """
    found = re.fullmatch("([0-9]{1,20})(?:[.]([0-9]{1,6}))?", text.strip(), re.ASCII)
    if found:
        seconds = int(found[1])
        if seconds > _SECOND_MAX:
            raise InstantInvalid(f"{text[:80]!r} is after the year 9999; write whole seconds")
        return seconds * 1_000_000 + int((found[2] or "").ljust(6, "0"))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InstantInvalid(
            f"{text[:80]!r} is not a time; write 2024-05-01, 2024-05-01T12:30:00Z, or seconds "
            "since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return micros(moment)


def micros(moment: datetime) -> int:
    """Returns *moment*, which has a time zone, in microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)
