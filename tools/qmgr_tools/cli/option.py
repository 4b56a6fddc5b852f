"""Options that take more than a word: sizes, durations, headers, a UID.

A time has a unit: --wait 5 meant 5 ms here and 5 s in the head of whoever said it. A size without
one is in bytes, as in qmgrd.toml.
"""

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import typer

from qmgr_config.units import ms_text, parse_bytes, parse_ms, shown
from qmgr_protocol import group_id
from qmgr_protocol.messages import LEASE_MAX_MS, WAIT_MAX_MS
from qmgr_protocol.name import NAME_MAX, is_name
from qmgr_protocol.record import DELAY_MAX_MS, TIMESTAMP_MAX, Uid
from qmgr_tools.cli.failure import usage

NUMBER_MAX = 2**63 - 1  # that the protocol has
FLOAT_MAX = sys.float_info.max
DEFAULT = "default"  # an option that takes a value back
LEASE_MAX = f"at most {ms_text(LEASE_MAX_MS)}"
WAITS = f"at most {ms_text(WAIT_MAX_MS)}"
TIME = re.compile(r"(?P<number>-?[0-9][0-9_]*(\.[0-9]+)?) *(?P<unit>[A-Za-z]*)")


def size(text: str | int) -> int:
    """Return a size in bytes, as in "64 MiB"."""
    number = _checked(parse_bytes, text)
    if number > NUMBER_MAX:
        raise typer.BadParameter(f"{shown(text)} is too large")
    return number


def messages(text: str | int) -> int:
    """Return a number of messages, at least one."""
    said = str(text).strip()
    if not re.fullmatch("[0-9]{1,19}", said) or not 1 <= int(said) <= NUMBER_MAX:
        raise typer.BadParameter(f"{shown(said)} is no number of messages, 1 or more")
    return int(said)


def within(number: int | float, low: int, high: int, said: Callable[[Any], str]) -> int | float:
    """Return *number* where it is from *low* to *high*; the refusal names these as they are said.

    Raises:
        typer.BadParameter: it is not.
    """
    if low <= number <= high:
        return number
    fault = "small" if number < low else "large"
    raise typer.BadParameter(f"{said(number)} is too {fault} ({said(low)} to {said(high)})")


def or_default(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser that also takes the word "default", as :data:`DEFAULT`."""

    def parsed(text: str) -> Any:
        return DEFAULT if text == DEFAULT else parse(text)

    return parsed


def wait(text: str | int) -> int:
    """Return a wait in milliseconds, as in "5s"."""
    return _at_most(time_ms(text), WAIT_MAX_MS)


def lease(text: str | int) -> int:
    """Return a lease in milliseconds, as in "30s"."""
    return _at_most(time_ms(text), LEASE_MAX_MS)


def expiry(text: str | int) -> int:
    """Return for how long a message is worth delivering, in milliseconds, as in "1h"."""
    return _at_most(time_ms(text), DELAY_MAX_MS)


def delay(text: str | int) -> int:
    """Return for how long a message is to wait, in milliseconds, as in "5min"."""
    return _at_most(time_ms(text), DELAY_MAX_MS)


def moment(text: str) -> datetime:
    """Return the time of --deliver-at; one without a zone is a time here.

    Raises:
        Failure: USAGE.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise usage(
            f"--deliver-at {text[:80]!r} is no time",
            "it is not as in 2030-01-31T18:00",
            "add a zone as in 18:00+01:00 or 18:00Z for one elsewhere",
        ) from None
    return found.astimezone()


def seconds(text: str | float) -> float:
    """Return a duration in seconds, as in "5s" or "500 ms"; a default as it is."""
    if isinstance(text, float):
        return text
    wait_ms = time_ms(text)
    if not wait_ms:
        raise typer.BadParameter(f"{text} is no time to work in")
    return _at_most(wait_ms, WAIT_MAX_MS) / 1000


def time_ms(text: object) -> int:
    """Return a time in milliseconds, as in "30s"; 0 needs no unit."""
    said = str(text).strip()
    match = TIME.fullmatch(said)
    if match is None:
        raise typer.BadParameter(f"{shown(said)} is not a time, as in 30s or 500ms")
    if not match["unit"]:
        if said == "0":
            return 0
        raise typer.BadParameter(f"{said} has no unit, as in 30s or 500ms")
    return _checked(parse_ms, said)


def _checked(parse: Any, text: object) -> int:
    try:
        number: int = parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if number < 0:
        raise typer.BadParameter(f"{text} is negative")
    return number


def _at_most(time_ms: int, limit_ms: int) -> int:
    if time_ms > limit_ms:
        raise typer.BadParameter(f"{ms_text(time_ms)} is too long, at most {ms_text(limit_ms)}")
    return time_ms


def given(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Return the value of an option that selects; one that is given and empty is refused.

    Without it a command is for all messages, and that an unset variable is not to mean.

    Raises:
        typer.BadParameter: it is empty.
    """
    source = ctx.get_parameter_source(param.name or "")
    if not value and source is not None and source.name != "DEFAULT":
        raise typer.BadParameter("it is empty; leave it out if all messages are meant")
    return value


def headers(said: list[str]) -> dict[str, Any]:
    """Return the headers of --header KEY=TEXT ..., or KEY:=VALUE with a value of JSON.

    Raises:
        Failure: USAGE.
    """
    found: dict[str, Any] = {}
    for text in said:
        key, equals, value = text.partition("=")
        is_typed = key.endswith(":")
        key = key[:-1] if is_typed else key
        if not key or not equals:
            raise usage(f"--header {text!r} is no header", "it is neither KEY=TEXT nor KEY:=VALUE")
        if key in found:
            raise usage(f"--header {text!r} is one too many", f"{key} has a value already")
        found[key] = _typed(text, key, value) if is_typed else value
    return found


def _typed(said: str, key: str, value: str) -> str | float | bool | None:
    """Return the *value* of a header KEY:=VALUE: an int, where it is one that selectors know.

    Raises:
        Failure: USAGE.
    """
    try:
        found: list[Any] | dict[str, Any] | str | float | bool | None = json.loads(value)
    except (ValueError, RecursionError):
        why = f"{shown(value)} is no JSON"
        raise usage(f"--header {said[:80]!r} has no value", why, f"a text is {key}=TEXT") from None
    if isinstance(found, list | dict):
        why = "its value is no number, truth, null or text: no selector would know it"
        raise usage(f"--header {said[:80]!r} is no header", why)
    most = NUMBER_MAX if isinstance(found, int) else FLOAT_MAX
    if isinstance(found, int | float) and not abs(found) <= most:
        why = "it is beyond an integer of 64 bits or a decimal that a number holds"
        raise usage(f"--header {said[:80]!r} has no value", why, f"a text is {key}=TEXT")
    return found


def group(text: str | bytes) -> bytes:
    """Return the id of a message group, of an option or an argument; a default as it is."""
    if isinstance(text, bytes):
        return text
    try:
        return group_id.parsed(text)
    except ValueError as error:
        raise typer.BadParameter(f"{shown(text)} is no group: {error}") from None


def uid(text: str) -> Uid:
    """Return the UID ORIGIN.TIMESTAMP, of an option or an argument.

    Raises:
        Failure: USAGE.
    """
    origin, _, digits = text.rpartition(".")
    if is_name(origin) and re.fullmatch("[0-9]{1,19}", digits):
        timestamp = int(digits)
        if timestamp <= TIMESTAMP_MAX:
            return Uid(origin, timestamp)
    raise usage(
        f"{text[:80]!r} is no UID",
        "it is not ORIGIN.TIMESTAMP",
        f"the origin is 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -, the timestamp 0 to {TIMESTAMP_MAX}",
    )
