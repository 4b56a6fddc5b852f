"""Parsing and formatting of sizes and times such as "64 GiB" and "30 s".

The daemon itself uses integers. A number without a unit is in the base unit: bytes or milliseconds.
"""

import json
import re
from collections.abc import Mapping
from fractions import Fraction

SHOWN_MAX = 60
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

_BINARY = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
_DECIMAL = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES = _BINARY | _DECIMAL
_MS = {"ms": 1, "s": SECOND_MS, "min": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_DIGITS_MAX = 32
_QUANTITY = re.compile(
    rf"(?P<number>-?[0-9][0-9_]{{0,{_DIGITS_MAX - 1}}}(?:\.[0-9]{{1,6}})?) *(?P<unit>[A-Za-z]*)"
)


def parse_bytes(value: object) -> int:
    """Returns the size in bytes of a value such as 4096, "4096", "4 KiB", "1.5 GiB" or "10 MB".

    Raises:
        ValueError: The value is invalid. The error states the reason.
    """
    return _parse(value, _BYTES, 'bytes, as in 4096 or "4 KiB"')


def parse_ms(value: object) -> int:
    """Returns the time in milliseconds of a value such as 500, "1.5 s", "5 min", "2 h" or "7 d".

    Raises:
        ValueError: The value is invalid. The error states the reason.
    """
    return _parse(value, _MS, 'milliseconds, as in 500 or "30 s"')


def parse_count(value: object) -> int:
    """Returns the whole number of a value such as 100_000 or "100000".

    Raises:
        ValueError: The value is invalid. The error states the reason.
    """
    return _parse(value, {}, "a whole number")


def bytes_text(size_bytes: int) -> str:
    """Returns the size in the largest exact binary unit, such as "64 GiB" or "1000 B"."""
    return _text(size_bytes, _BINARY)


def ms_text(time_ms: int) -> str:
    """Returns the time in the largest exact unit, such as "30 s" or "1500 ms"."""
    return _text(time_ms, _MS)


def count_text(count: int) -> str:
    """Returns the number in TOML syntax with separators, such as "100_000"."""
    return f"{count:_}"


def shown(value: object) -> str:
    """Returns the value in TOML syntax on one line, cut at 60 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # Python cannot print a number of more than 4,300 digits.
        return "a number too long to show"
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."


def _parse(value: object, units: Mapping[str, int], wanted: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{shown(value)} is not {wanted}")
    unit = match["unit"]
    if unit and unit not in units:
        known = f"use {', '.join(units)}" if units else "a count has no units"
        raise ValueError(f'{shown(value)} has the unknown unit "{unit}" ({known})')
    exact = Fraction(match["number"].replace("_", "")) * (units[unit] if unit else 1)
    if exact.denominator != 1:
        raise ValueError(f"{shown(value)} is not a whole number of the base unit")
    return exact.numerator


def _text(amount: int, units: Mapping[str, int]) -> str:
    unit = max((u for u in units if amount % units[u] == 0), key=units.__getitem__)
    return f"{amount // units[unit]} {unit}" if amount else f"0 {next(iter(units))}"
