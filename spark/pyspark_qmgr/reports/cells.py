"""Formats values for people, such as 1.5 s, 12 KiB and 99.3 %."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark_qmgr.reports.report import Kind

_DURATIONS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TEXT_MAX = 80  # maximum number of characters of a name that a user chose


def _digits(value: float) -> str:
    """Returns *value* with three digits, or with all digits of a longer integer part."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(places, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, units: Sequence[tuple[int, str]], least: str) -> str:
    for size, unit in units:
        if abs(value) >= size:
            return f"{_digits(value / size)} {unit}"
    return f"{_digits(value)} {least}"


def duration(ms: float) -> str:
    """Returns *ms* with three digits below a minute, otherwise in its two largest units."""
    if abs(ms) < 1_000:
        return f"{_digits(ms)} ms"
    if abs(ms) < 59_950:
        return f"{_digits(ms / 1_000)} s"
    seconds = round(abs(ms) / 1_000)
    sign = "-" if ms < 0 else ""
    largest = next(n for n, (size, _) in enumerate(_DURATIONS) if seconds >= size)
    parts = []
    for size, unit in _DURATIONS[largest : largest + 2]:
        number, seconds = divmod(seconds, size)
        parts += [f"{number} {unit}"] if number else []
    return sign + " ".join(parts)


def size(size_bytes: float) -> str:
    """Returns *size_bytes* as text with a unit."""
    return _scaled(size_bytes, _SIZES, "B")


def count(number: float) -> str:
    """Returns *number* as a whole number."""
    return f"{number:,.0f}"


def share(part: float) -> str:
    """Returns the fraction *part* as a percentage."""
    return f"{_digits(part * 100)} %"


def rate(per_s: float) -> str:
    """Returns the rate *per_s* as text."""
    return f"{_digits(per_s)}/s"


def time(at: datetime) -> str:
    """Returns the time *at* in UTC, to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


def text(value: object) -> str:
    """Returns *value* as text on one line with at most TEXT_MAX characters."""
    line = plain(str(value))
    return line if len(line) <= TEXT_MAX else f"{line[: TEXT_MAX - 1]}…"


def plain(line: str) -> str:
    """Returns *line* with unprintable characters, including newlines, replaced."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


def flag(value: object) -> str:
    """Returns *value* as "yes" or "no"."""
    return "yes" if value else "no"


_CELLS: Mapping[Kind, Callable[[Any], str]] = {
    Kind.TEXT: text,
    Kind.COUNT: count,
    Kind.BYTES: size,
    Kind.MS: duration,
    Kind.RATE: rate,
    Kind.SHARE: share,
    Kind.NUMBER: _digits,
    Kind.TIME: time,
    Kind.FLAG: flag,
}


def cell(kind: Kind, value: Any) -> str:
    """Returns the text of a table cell for *value*, or "" for null."""
    return "" if value is None else _CELLS[kind](value)


def of(number: int, word: str) -> str:
    """Returns *number* with its noun, such as "1 queue" or "2 queues"."""
    if number != 1:
        word = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count(number)} {word}"
