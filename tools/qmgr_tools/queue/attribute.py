"""The attributes of queues as qmctl takes and shows them: one table for all commands.

An option is named as its attribute, without a unit: the value has one, as in --lease 5min.
"""

import inspect
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

import typer

from qmgr_config.units import ms_text
from qmgr_protocol.limits import QUEUE_ATTRIBUTES, Attribute
from qmgr_tools.cli import completion, option, output
from qmgr_tools.cli import humanize as humane
from qmgrd.core.catalogue.attribute import said as said

# By section of the help and of what is shown: what each attribute means.
PANELS: dict[str, dict[str, str]] = {
    "Limits": {
        "depth_max": "The most messages",
        "bytes_max": "The most bytes",
        "message_max_bytes": "The largest message; 0: as the daemon takes",
        "overflow": "What a put does that meets a full queue",
    },
    "Time": {
        "lease_ms": "How long a message may be held before others get it",
        "expiry_max_ms": "How long a message may live; 0: as long as it says",
        "expiry_action": "What becomes of a message whose time is over",
        "dedup_retention_ms": "How long the UIDs of consumed messages are known",
    },
    "Groups": {
        "group_retention_ms": "How long a group with nothing here is known",
        "group_incomplete_ms": "How long one waits for what is missing; 0: for ever",
    },
    "Retries and dead letters": {
        "retry_initial_ms": "The wait after the first failure; 0: none",
        "retry_factor": "How much longer each further wait is",
        "retry_max_ms": "The longest wait",
        "retry_jitter_percent": "Of the wait, at most, taken off by chance",
        "backout_threshold": "Failures after which a message leaves; 0: never",
        "delivery_limit": "The same of deliveries that came back and had not failed; 0: never",
        "backout_queue": 'Where it goes; "": SYSTEM.DEAD.LETTERS',
    },
    "Flood breaker": {
        "breaker_percent": "Share of failures at which delivery pauses; 0: never",
        "breaker_window_ms": "The time over which it is counted",
        "breaker_messages_min": "Messages in it before the share means anything",
        "breaker_pause_ms": "The pause until one message is tried",
    },
    "Use": {
        "exclusive": "One connection at a time gets, or any number",
        "transfer_in": "Links of others may bring messages, or not",
        "priority_default": "Of messages that leave it to the queue",
        "accounting": "What happens to its messages is kept as history, or not",
        "unused_expiry_ms": "Deleted, even with messages, if nobody gets for so long; 0: never",
    },
}
Panels: TypeAlias = Mapping[str, Mapping[str, str]]
Attributes: TypeAlias = Mapping[str, Attribute]  # of queues, of subscriptions, of topics
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
_SAID: dict[str, Callable[[Any], str]] = {
    "messages": "{:,}".format,
    "bytes": humane.exact_size,
    "ms": ms_text,
    "count": "{:,}".format,
    "percent": "{}".format,
    "factor": "{:g}".format,
}


def option_name(name: str) -> str:
    """Return the option of the attribute *name*."""
    return f"--{said(name).replace(' ', '-')}"


def value_text(name: str, value: Any) -> str:
    """Return a number of the attribute *name* as people write it, and other values as they are."""
    quantity = QUEUE_ATTRIBUTES[name].quantity
    return {"bytes": humane.exact_size, "ms": ms_text}.get(quantity, str)(value)


def options_text(asked: Mapping[str, Any]) -> str:
    """Return the options that give a queue what was *asked*, as a shell takes them."""
    found = []
    for name in QUEUE_ATTRIBUTES.keys() & asked.keys():
        word, value = option_name(name), asked[name]
        if isinstance(value, bool):
            found.append(f" {word if value else f'--no-{word[2:]}'}")
        else:
            found.append(f" {word} {shlex.quote(value_text(name, value))}")
    return "".join(sorted(found))


def column(name: str, attributes: Attributes = QUEUE_ATTRIBUTES) -> output.Column:
    """Return the column of the attribute *name*."""
    quantity, title = attributes[name].quantity, said(name).upper()
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
    """Return the value of the attribute *name* that *text* says.

    Raises:
        typer.BadParameter: it says none, or one out of range.
    """
    known = attributes[name]
    if known.quantity == "choice":
        if text not in known.choices:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(known.choices)}")
        return text
    if known.quantity == "queue":
        return str(text)
    number = _number(known, text)
    return option.within(number, max(known.low, 0), known.high, _SAID[known.quantity])


def _number(known: Attribute, text: str | int | float) -> int | float:
    if known.quantity == "bytes":
        return option.size(str(text))
    if known.quantity == "ms":
        return option.time_ms(text)
    if known.quantity == "messages":
        return option.messages(str(text))
    return _plain_number(str(text).strip().removesuffix("%").rstrip(), known.quantity == "factor")


def _plain_number(said_: str, may_have_fraction: bool) -> int | float:
    if re.fullmatch("[0-9]{1,19}", said_):
        return int(said_)
    if may_have_fraction and re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", said_):
        return float(said_)
    kind = "number" if may_have_fraction else "whole number"
    raise typer.BadParameter(f"{said_[:60]!r} is no {kind}, 0 or more")


def options(
    *, takes_default: bool, attributes: Attributes = QUEUE_ATTRIBUTES, panels: Panels = PANELS
) -> tuple[inspect.Parameter, ...]:
    """Return the options of all attributes, for a command; None where one is not given.

    Args:
        takes_default: whether the word "default" may be said, which is option.DEFAULT then.
        attributes: what they take.
        panels: what they mean, by section of the help.
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
        span = f" ({' to '.join(map(_SAID[known.quantity], (max(known.low, 0), known.high)))})"
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
    """Return what of *options_* was said; None stands for the word "default"."""
    return {
        key: None if value == option.DEFAULT else value
        for key, value in options_.items()
        if value is not None
    }


def all_said(names: Iterable[str]) -> str:
    """Return what people call these attributes, behind one another."""
    return ", ".join(map(said, names))


def changes(
    changed: dict[str, list[Any]], columns: Iterable[output.Column] = COLUMNS
) -> Iterator[str]:
    """Yield what changed from what to what, in words."""
    for shown in columns:
        if shown.key in changed:
            before, after = (shown.cell({shown.key: value}) for value in changed[shown.key])
            yield f"{shown.title.lower()} {before or 'default'} -> {after or 'default'}"
