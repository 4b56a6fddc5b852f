"""Parsers of option values: sizes, durations, headers, UIDs.

A duration needs a unit, because users read --wait 5 as 5 s, not 5 ms. A size without a unit is in
bytes, as in qmgrd.toml.
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

NUMBER_MAX = 2**63 - 1  # largest integer of the protocol
FLOAT_MAX = sys.float_info.max
DEFAULT = "default"  # value that resets an option
LEASE_MAX = f"at most {ms_text(LEASE_MAX_MS)}"
WAITS = f"at most {ms_text(WAIT_MAX_MS)}"
DURATION_FORM = "use a number and a unit, such as 30s or 500ms"
TIME = re.compile(r"(?P<number>-?[0-9][0-9_]*(\.[0-9]+)?) *(?P<unit>[A-Za-z]*)")


def size(text: str | int) -> int:
    """Returns a size such as "64 MiB" in bytes."""
    number = _checked(parse_bytes, text)
    if number > NUMBER_MAX:
        raise typer.BadParameter(f"{shown(text)} is too large")
    return number


def messages(text: str | int) -> int:
    """Returns a number of messages, at least one."""
    digits = str(text).strip()
    if not re.fullmatch("[0-9]{1,19}", digits) or not 1 <= int(digits) <= NUMBER_MAX:
        raise typer.BadParameter(f"{shown(digits)} is not a number of messages (1 or more)")
    return int(digits)


def within(number: int | float, low: int, high: int, text: Callable[[Any], str]) -> int | float:
    """Returns *number* if it is from *low* to *high*. *text* formats the numbers of the error.

    Raises:
        typer.BadParameter: If *number* is out of range.
    """
    if low <= number <= high:
        return number
    fault = "small" if number < low else "large"
    raise typer.BadParameter(f"{text(number)} is too {fault} ({text(low)} to {text(high)})")


def or_default(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Returns a parser that also accepts "default" and then returns :data:`DEFAULT`."""

    def parsed(text: str) -> Any:
        return DEFAULT if text == DEFAULT else parse(text)

    return parsed


def wait(text: str | int) -> int:
    """Returns a wait such as "5s" in milliseconds."""
    return _at_most(time_ms(text), WAIT_MAX_MS)


def lease(text: str | int) -> int:
    """Returns a lease such as "30s" in milliseconds."""
    return _at_most(time_ms(text), LEASE_MAX_MS)


def expiry(text: str | int) -> int:
    """Returns the lifetime of a message, such as "1h", in milliseconds."""
    return _at_most(time_ms(text), DELAY_MAX_MS)


def delay(text: str | int) -> int:
    """Returns the delivery delay of a message, such as "5min", in milliseconds."""
    return _at_most(time_ms(text), DELAY_MAX_MS)


def moment(text: str) -> datetime:
    """Returns the time of --deliver-at. A time without a zone is local.

    Raises:
        Failure: USAGE if the time is invalid.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise usage(
            f"invalid time --deliver-at {text[:80]!r}",
            "it is not in the form 2030-01-31T18:00",
            "to use another time zone, append it, as in 18:00+01:00 or 18:00Z",
        ) from None
    return found.astimezone()


def seconds(text: str | float) -> float:
    """Returns a duration such as "5s" or "500 ms" in seconds. A default is returned unchanged."""
    if isinstance(text, float):
        return text
    wait_ms = time_ms(text)
    if not wait_ms:
        raise typer.BadParameter(f"{text} is too short")
    return _at_most(wait_ms, WAIT_MAX_MS) / 1000


def time_ms(text: object) -> int:
    """Returns a duration such as "30s" in milliseconds. The unit of 0 is optional."""
    given = str(text).strip()
    match = TIME.fullmatch(given)
    if match is None:
        raise typer.BadParameter(f"invalid duration {shown(given)}: {DURATION_FORM}")
    if not match["unit"]:
        if given == "0":
            return 0
        raise typer.BadParameter(f"duration {given} has no unit: {DURATION_FORM}")
    return _checked(parse_ms, given)


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
        raise typer.BadParameter(
            f"{ms_text(time_ms)} is too long (the limit is {ms_text(limit_ms)})"
        )
    return time_ms


def given(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Returns the value of an option that selects messages.

    Without the option a command applies to all messages. An empty value is refused, because it
    usually comes from an unset shell variable.

    Raises:
        typer.BadParameter: If the option is given with an empty value.
    """
    source = ctx.get_parameter_source(param.name or "")
    if not value and source is not None and source.name != "DEFAULT":
        raise typer.BadParameter("the value is empty; to select all messages, omit the option")
    return value


def headers(given: list[str]) -> dict[str, Any]:
    """Returns the headers of --header options: KEY=TEXT, or KEY:=VALUE with a JSON value.

    Raises:
        Failure: USAGE if a header is invalid or duplicate.
    """
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        is_typed = key.endswith(":")
        key = key[:-1] if is_typed else key
        if not key or not equals:
            raise usage(
                f"invalid --header {text!r}", "it must have the form KEY=TEXT or KEY:=VALUE"
            )
        if key in found:
            raise usage(f"duplicate --header {text!r}", f"{key} already has a value")
        found[key] = _typed(text, key, value) if is_typed else value
    return found


def _typed(given: str, key: str, value: str) -> str | float | bool | None:
    """Returns the JSON *value* of a header KEY:=VALUE.

    Raises:
        Failure: USAGE if the value is invalid.
    """
    try:
        found: list[Any] | dict[str, Any] | str | float | bool | None = json.loads(value)
    except (ValueError, RecursionError):
        why = f"{shown(value)} is not valid JSON"
        remedy = f"to set text: {key}=TEXT"
        raise usage(f"invalid --header {given[:80]!r}", why, remedy) from None
    if isinstance(found, list | dict):
        why = "its value must be a number, boolean, null or text: selectors support no other type"
        raise usage(f"invalid --header {given[:80]!r}", why)
    most = NUMBER_MAX if isinstance(found, int) else FLOAT_MAX
    if isinstance(found, int | float) and not abs(found) <= most:
        why = "the value does not fit a 64-bit integer or a floating-point number"
        raise usage(f"invalid --header {given[:80]!r}", why, f"to set text: {key}=TEXT")
    return found


def group(text: str | bytes) -> bytes:
    """Returns the message group id of an option or argument. A default is returned unchanged."""
    if isinstance(text, bytes):
        return text
    try:
        return group_id.parsed(text)
    except ValueError as error:
        raise typer.BadParameter(f"invalid group id {shown(text)}: {error}") from None


def uid(text: str) -> Uid:
    """Returns the UID ORIGIN.TIMESTAMP from an option or an argument.

    Raises:
        Failure: USAGE if the UID is invalid.
    """
    origin, _, digits = text.rpartition(".")
    if is_name(origin) and re.fullmatch("[0-9]{1,19}", digits):
        timestamp = int(digits)
        if timestamp <= TIMESTAMP_MAX:
            return Uid(origin, timestamp)
    raise usage(
        f"invalid UID {text[:80]!r}",
        "it does not have the form ORIGIN.TIMESTAMP",
        f"the origin is 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -, the timestamp 0 to {TIMESTAMP_MAX}",
    )
