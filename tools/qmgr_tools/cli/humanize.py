"""Sizes, durations and times as text for people, and times for scripts."""

from datetime import UTC, datetime

from qmgr_config.units import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS, TIB

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_EXACT = {
    "B": 1,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": TIB,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_STEPS = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))
US_PER_S = 1_000_000


def size(size_bytes: int) -> str:
    """Returns a size with at most one decimal, as in "117.7 MiB" or "512 B"."""
    amount, unit = float(size_bytes), 0
    while amount >= 1023.95 and unit < len(_BINARY) - 1:
        amount, unit = amount / 1024, unit + 1
    text = f"{amount:.1f}".removesuffix(".0")
    return f"{text} {_BINARY[unit]}"


def exact_size(size_bytes: int) -> str:
    """Returns an exact size in the unit with the smallest number, as in "64 MB" or "1 GiB"."""
    fitting = [unit for unit, unit_bytes in _EXACT.items() if size_bytes % unit_bytes == 0]
    unit = min(fitting, key=lambda unit: size_bytes // _EXACT[unit])
    return f"{size_bytes // _EXACT[unit]} {unit}"


def duration(time_ms: int) -> str:
    """Returns a duration in its two largest units, as in "3 d 4 h" or "250 ms"."""
    if time_ms < SECOND_MS:
        return f"{time_ms} ms"
    for index, (step_ms, unit) in enumerate(_STEPS):
        if time_ms >= step_ms:
            rest_ms = time_ms % step_ms
            smaller = _STEPS[index + 1 : index + 2]
            tail = [f"{rest_ms // s} {u}" for s, u in smaller if rest_ms >= s]
            return " ".join([f"{time_ms // step_ms} {unit}", *tail])
    raise AssertionError(time_ms)


def counted(count: int, noun: str) -> str:
    """Returns a number with its noun, as in "1 queue" or "2,000 queues"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def messages(count: int | None) -> str:
    """Returns a number of messages in words. None means that the number is unknown."""
    return "an unknown number of messages" if count is None else counted(count, "message")


def age(then_us: int, now_us: int) -> str:
    """Returns the time that has passed, as in "5 s ago"."""
    passed_ms = (now_us - then_us) // 1000
    return "now" if passed_ms < SECOND_MS else f"{duration(passed_ms)} ago"


def rfc3339(time_us: int) -> str:
    """Returns a time in microseconds since 1970 as RFC 3339 in UTC, to the microsecond.

    A time beyond the year 9999, which RFC 3339 cannot represent, becomes the last valid time.
    """
    seconds, us = divmod(min(time_us, 253_402_300_799_999_999), US_PER_S)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
