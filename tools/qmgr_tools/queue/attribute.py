"""The attributes of queues as options and columns, in one table for all commands.

The name of an option omits the unit of its attribute, because the value contains the unit, as in
--lease 5min.
"""

import inspect
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

import typer

from qmgr_config.units import ms_text
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import QUEUE_ATTRIBUTES, Attribute
from qmgr_tools.cli import completion, humanize, option, output
from qmgr_tools.manager import definition_value

# The meaning of each attribute, by section of the help and of the output.
PANELS: dict[str, dict[str, str]] = {
    "Limits": {
        "depth_max": "Maximum number of messages",
        "bytes_max": "Maximum size of all messages",
        "message_max_bytes": "Maximum size of a message; 0: the daemon's limit",
        "overflow": "Effect of a put to a full queue",
    },
    "Time": {
        "lease_ms": "Time after which an unsettled message is delivered again",
        "expiry_max_ms": "Maximum lifetime of a message; 0: no limit",
        "expiry_action": "Effect on an expired message",
        "dedup_retention_ms": "Time for which UIDs of consumed messages are remembered",
    },
    "Groups": {
        "group_retention_ms": "Time for which a group without messages is remembered",
        "group_incomplete_ms": "Time for which an incomplete group waits; 0: forever",
    },
    "Retries and dead letters": {
        "retry_initial_ms": "Delay after the first failure; 0: none",
        "retry_factor": "Factor by which each further delay grows",
        "retry_max_ms": "Maximum delay",
        "retry_jitter_percent": "Maximum random reduction of a delay, in percent",
        "backout_threshold": "Failures that make a message a dead letter; 0: never",
        "delivery_limit": "Returns without a failure that make a message a dead letter; 0: never",
        "backout_queue": 'Target of dead letters; "": SYSTEM.DEAD.LETTERS',
    },
    "Circuit breaker": {
        "breaker_percent": "Share of failures that pauses delivery; 0: never",
        "breaker_window_ms": "Time over which failures are counted",
        "breaker_messages_min": "Minimum number of messages in that time to compute the share",
        "breaker_pause_ms": "Pause before one message is delivered as a probe",
    },
    "Use": {
        "exclusive": "Allow only one connection at a time to get messages, or any number",
        "transfer_in": "Accept messages from links of other queue managers, or refuse them",
        "priority_default": "Priority of messages that are put without a priority",
        "accounting": "Record the history of messages",
        "unused_expiry_ms": "Idle time before deletion, even with messages; 0: never",
    },
}
Panels: TypeAlias = Mapping[str, Mapping[str, str]]
Attributes: TypeAlias = Mapping[str, Attribute]  # attributes of queues, subscriptions or topics
_METAVARS = {
    "messages": "N",
    "bytes": "SIZE",
    "ms": "TIME",
    "count": "N",
    "percent": "N",
    "factor": "X",
    "queue": "QUEUE",
    "choice": "WORD",
}
_TEXTS: dict[str, Callable[[Any], str]] = {
    "messages": "{:,}".format,
    "bytes": humanize.exact_size,
    "ms": ms_text,
    "count": "{:,}".format,
    "percent": "{}".format,
    "factor": "{:g}".format,
}


def label(name: str) -> str:
    """Returns the attribute *name* for people, without the unit, which the value contains."""
    return name.removesuffix("_ms").removesuffix("_bytes").replace("_", " ")


def option_name(name: str) -> str:
    """Returns the option of the attribute *name*."""
    return f"--{label(name).replace(' ', '-')}"


def value_text(name: str, value: Any) -> str:
    """Returns a value of the attribute *name* as text, with the unit if it is a number."""
    quantity = QUEUE_ATTRIBUTES[name].quantity
    return {"bytes": humanize.exact_size, "ms": ms_text}.get(quantity, str)(value)


def options_text(asked: Mapping[str, Any]) -> str:
    """Returns the options that set the *asked* attributes, quoted for a shell."""
    found = []
    for name in QUEUE_ATTRIBUTES.keys() & asked.keys():
        word, value = option_name(name), asked[name]
        if isinstance(value, bool):
            found.append(f" {word if value else f'--no-{word[2:]}'}")
        else:
            found.append(f" {word} {shlex.quote(value_text(name, value))}")
    return "".join(sorted(found))


def column(name: str, attributes: Attributes = QUEUE_ATTRIBUTES) -> output.Column:
    """Returns the column of the attribute *name*."""
    quantity, title = attributes[name].quantity, label(name).upper()
    makers: dict[str, Callable[[str, str], output.Column]] = {
        "bytes": output.exact_size,
        "ms": output.exact_duration,
        "messages": output.count,
        "count": output.count,
        "percent": output.count,
        "factor": output.count,
    }
    if quantity == "flag":
        return output.Column(name, title, output.flag)
    return makers.get(quantity, output.text)(name, title)


SECTIONS = {panel: tuple(map(column, names)) for panel, names in PANELS.items()}
COLUMNS = tuple(column(name) for name in QUEUE_ATTRIBUTES)


def parse(name: str, text: str | int | float, attributes: Attributes = QUEUE_ATTRIBUTES) -> Any:
    """Returns the value of the attribute *name* that *text* represents.

    Raises:
        typer.BadParameter: If the value is invalid or out of range.
    """
    known = attributes[name]
    if known.quantity == "choice":
        if text not in known.choices:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(known.choices)}")
        return text
    if known.quantity == "queue":
        return str(text)
    number = _number(known, text)
    return option.within(number, max(known.low, 0), known.high, _TEXTS[known.quantity])


def _number(known: Attribute, text: str | int | float) -> int | float:
    if known.quantity == "bytes":
        return option.size(str(text))
    if known.quantity == "ms":
        return option.time_ms(text)
    if known.quantity == "messages":
        return option.messages(str(text))
    return _plain_number(str(text).strip().removesuffix("%").rstrip(), known.quantity == "factor")


def _plain_number(text: str, may_have_fraction: bool) -> int | float:
    if re.fullmatch("[0-9]{1,19}", text):
        return int(text)
    if may_have_fraction and re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", text):
        return float(text)
    kind = "number" if may_have_fraction else "whole number"
    raise typer.BadParameter(f"{text[:60]!r} is not a {kind} (0 or more)")


def options(
    *, takes_default: bool, attributes: Attributes = QUEUE_ATTRIBUTES, panels: Panels = PANELS
) -> tuple[inspect.Parameter, ...]:
    """Returns the options of all attributes for a command. An omitted option is None.

    Args:
        takes_default: Whether the options accept the word "default" as option.DEFAULT.
        attributes: The attributes with their ranges.
        panels: The meanings by section of the help.
    """
    return tuple(
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_annotation(name, attributes, about, panel, takes_default),
        )
        for panel, names in panels.items()
        for name, about in names.items()
    )


def _annotation(
    name: str, attributes: Attributes, about: str, panel: str, takes_default: bool
) -> Any:
    known = attributes[name]
    word = option_name(name)
    if known.quantity == "flag":
        flag = typer.Option(
            f"{word}/--no-{word[2:]}", help=f"{about}.", rich_help_panel=panel, show_default=False
        )
        return Annotated[bool | None, flag]

    def read(text: str) -> Any:
        return parse(name, text, attributes)

    span = ""
    if known.choices:
        span = f": {', '.join(known.choices)}"
    elif known.is_number:
        span = f" ({' to '.join(map(_TEXTS[known.quantity], (max(known.low, 0), known.high)))})"
    taken = typer.Option(
        word,
        help=f"{about}{span}.",
        rich_help_panel=panel,
        show_default=False,
        metavar=_METAVARS[known.quantity],
        parser=option.or_default(read) if takes_default else read,
        autocompletion=_completion(known),
    )
    return Annotated[Any, taken]


def _completion(known: Attribute) -> Callable[..., Any] | None:
    if known.choices:
        return lambda: list(known.choices)
    return completion.definitions if known.quantity == "queue" else None


def given(options_: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that the user gave. None stands for the word "default"."""
    return {
        key: None if value == option.DEFAULT else value
        for key, value in options_.items()
        if value is not None
    }


def check_known(row: Mapping[str, Any], changes: Iterable[str]) -> None:
    """Checks that the object of *row* has all attributes of *changes*.

    The row of a queue or subscription has all attributes of that kind of object.

    Raises:
        RequestError: VALUE_INVALID if the object lacks one of the attributes.
    """
    for name in changes:
        if name not in row:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"a {row['kind']} queue has no attribute {label(name)}; omit {option_name(name)}",
            )


def check_values(owner: str, changes: Mapping[str, Any]) -> None:
    """Checks the new values of a dry run. None restores a default, and is valid.

    Raises:
        RequestError: VALUE_INVALID if the daemon would refuse a value for queue *owner*.
    """
    for name, value in changes.items():
        why = ""
        if name == "alias_of" and value is not None:
            why = definition_value.queue_fault(owner, value)
        elif name in QUEUE_ATTRIBUTES and value is not None:
            why = definition_value.attribute_fault(owner, name, value)
        if why:
            raise RequestError(ErrorCode.VALUE_INVALID, f"{label(name)} of queue {owner}: {why}")


def labels(names: Iterable[str]) -> str:
    """Returns the labels of these attributes, separated by commas."""
    return ", ".join(map(label, names))


def changes(
    changed: dict[str, list[Any]], columns: Iterable[output.Column] = COLUMNS
) -> Iterator[str]:
    """Yields each change from the old to the new value in words."""
    for shown in columns:
        if shown.key in changed:
            before, after = (shown.cell({shown.key: value}) for value in changed[shown.key])
            yield f"{shown.title.lower()} {before or 'default'} -> {after or 'default'}"
