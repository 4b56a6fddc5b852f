"""Checks one attribute of a queue, template, subscription or topic, and shows its values."""

from collections.abc import Callable
from typing import Any

from qmgr_config.units import bytes_text, ms_text
from qmgr_protocol import name as names
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import (
    QUEUE_ATTRIBUTES,
    SUBSCRIPTION_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    Attribute,
    Quantity,
)
from qmgrd.core.catalogue.system import AUDIT, EVENTS, PUBLICATIONS

# Attributes that are states of a queue, not parts of its definition.
INHIBITS = ("put_inhibit", "get_inhibit")
ALIAS_OF = "alias_of"
_FLAG = Attribute("flag")
_KNOWN = QUEUE_ATTRIBUTES | dict.fromkeys(INHIBITS, _FLAG) | {ALIAS_OF: Attribute("queue")}
_OF_NOUN = {
    "subscription": SUBSCRIPTION_ATTRIBUTES | dict.fromkeys(INHIBITS, _FLAG),
    "topic": TOPIC_ATTRIBUTES,
}
_SAID: dict[Quantity, Callable[[Any], str]] = {
    "messages": "{:,}".format,
    "bytes": bytes_text,
    "ms": ms_text,
    "count": "{:,}".format,
    "percent": "{} %".format,
    "factor": "{:g}".format,
}


def check(noun: str, name: str, attribute: str, value: Any) -> None:
    """Raises VALUE_INVALID if *value* is not valid for *attribute*.

    Args:
        noun: The kind of definition: "queue", "template", "subscription" or "topic". The error
            message contains *noun* and *name*.
    """
    known = _OF_NOUN.get(noun, _KNOWN)[attribute]
    if known.quantity == "flag":
        if type(value) is not bool:
            _refuse(f"{noun}s.{name}.{attribute}: {_shown(value)} is neither true nor false")
    elif fault := _fault(known, name, value) or _backout_fault(attribute, value):
        path = f"{noun}s.{name}.{attribute}"
        _refuse(f"{path if attribute == ALIAS_OF else _of(attribute, noun, name)}: {fault}")


def label(attribute: str) -> str:
    """Returns the name of *attribute* for messages, without the unit, which values include."""
    return attribute.removesuffix("_ms").removesuffix("_bytes").replace("_", " ")


def _of(attribute: str, noun: str, name: str) -> str:
    return f"{label(attribute)} of {noun} {name}"


def _fault(known: Attribute, name: str, value: Any) -> str:
    """Returns a description of the error in *value*, or "" if *value* is valid."""
    if known.is_number:
        return _number_fault(known, value)
    if known.quantity == "choice":
        is_one = type(value) is str and value in known.choices
        return "" if is_one else f"{_shown(value)} is not one of {', '.join(known.choices)}"
    return _queue_fault(name, value)


def _number_fault(known: Attribute, value: Any) -> str:
    text = _SAID[known.quantity]
    span = f" ({text(known.low)} to {text(known.high)})"
    if type(value) is float and known.quantity == "factor":
        if not known.low <= value <= known.high:  # The test is also true for NaN.
            return f"{value:g} is too {'small' if value < known.low else 'large'}{span}"
        return ""
    if type(value) is not int:
        kind = "a number" if known.quantity == "factor" else "an integer"
        return f"{_shown(value)} is not {kind}{span}"
    if known.low <= value <= known.high:
        return ""
    return f"{text(value)} is too {'small' if value < known.low else 'large'}{span}"


def _queue_fault(name: str, value: Any) -> str:
    if value == "":
        return ""
    if type(value) is not str:
        return f"{_shown(value)} is not the name of a queue"
    try:
        queue, manager = names.split(value)
    except RequestError as error:
        return error.text
    if not queue:
        return f"{value} receives messages only from puts to remote queues such as QUEUE@{manager}"
    return "the value is the name of the queue itself" if value == name else ""


def _backout_fault(attribute: str, value: Any) -> str:
    if attribute == "backout_queue" and value in (AUDIT, EVENTS, PUBLICATIONS):
        return f"{value} accepts messages only from the queue manager"
    return ""


def _shown(value: Any) -> str:
    return repr(value)[:80]


def _refuse(text: str) -> None:
    raise RequestError(ErrorCode.VALUE_INVALID, text)
