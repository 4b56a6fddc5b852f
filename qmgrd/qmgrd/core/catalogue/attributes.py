"""The attributes of each kind of queue, their defaults, and the errors for inhibited queues."""

from difflib import get_close_matches
from typing import Any

from qmgr_config.model import Config
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import QUEUE_ATTRIBUTES, SUBSCRIPTION_ATTRIBUTES
from qmgrd.core.catalogue import attribute as attribute_
from qmgrd.core.catalogue import subscription, system
from qmgrd.core.catalogue.attribute import ALIAS_OF, INHIBITS
from qmgrd.core.catalogue.templates import Template
from qmgrd.core.layout.bounds import Bounds

_KNOWN = {
    "local": (*QUEUE_ATTRIBUTES, *INHIBITS),
    "transmission": ("depth_max", "bytes_max", "accounting", *INHIBITS),
    "publications": ("depth_max", "bytes_max", "dedup_retention_ms", "accounting", "put_inhibit"),
    "subscription": (*SUBSCRIPTION_ATTRIBUTES, "get_inhibit"),
    "proxy": (),
    "remote": ("put_inhibit",),
    "alias": (ALIAS_OF, *INHIBITS),
}
_IDENTITY = ("kind", "queue_id", *subscription.OWN)  # the fields of a row that are not attributes
_OF_SUBSCRIPTIONS = {"overflow": "discard-newest"}  # Publishers must not wait for subscribers.


def queue_attributes(queue: str, given: dict[str, Any], kind: str) -> dict[str, Any]:
    """Returns *given* after checking that each attribute exists for *kind* and is in range.

    Raises:
        RequestError: VALUE_INVALID with the path of the attribute.
    """
    for attribute, value in given.items():
        _check_known(queue, attribute, kind)
        noun = kind if kind == "subscription" else "queue"
        attribute_.check(noun, queue, attribute, value)
    if kind == "alias" and not given.get(ALIAS_OF, queue):
        raise RequestError(
            ErrorCode.VALUE_INVALID, f"queues.{queue}.{ALIAS_OF}: empty; give the name of the queue"
        )
    return dict(given)


def template_attributes(pattern: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes in *given* that have a value, after checking them for a template.

    Raises:
        RequestError: VALUE_INVALID with the path of the attribute.
    """
    known = list(QUEUE_ATTRIBUTES)
    kept = {}
    for attribute, value in given.items():
        if attribute not in known:
            raise unknown_attribute_error("templates", pattern, attribute, known)
        if value is not None:
            attribute_.check("template", pattern, attribute, value)
            kept[attribute] = value
    return kept


def check_in_force(queue: str, row: dict[str, Any], template: Template | None) -> None:
    """Raises VALUE_INVALID if *template* sets an invalid value for *queue*."""
    if template is None or "backout_queue" in row:
        return
    if template.attributes.get("backout_queue") == queue:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"backout queue of queue {queue}: template {template.pattern} sets {queue}, which is "
            "the queue itself; set another backout queue, or none, with: --backout-queue",
        )


def stored(given: dict[str, Any]) -> dict[str, Any]:
    """Returns those given attributes that a row stores. An inhibit is stored only if it is set."""
    return {key: value for key, value in given.items() if key not in INHIBITS or value}


def altered(queue: str, row: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the *row* of a queue with *changes*. None in *changes* restores the default.

    Raises:
        RequestError: VALUE_INVALID.
    """
    kind = row["kind"]
    for attribute in changes:
        _check_known(queue, attribute, kind)
    if ALIAS_OF in changes and changes[ALIAS_OF] is None:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"queues.{queue}.{ALIAS_OF}: this attribute has no default; give the name of a queue",
        )
    own = system.ATTRIBUTES.get(queue, {})  # A system queue has its own defaults.
    wanted = {key: own.get(key) if value is None else value for key, value in changes.items()}
    given = {key: value for key, value in wanted.items() if value is not None}
    kept = {key: value for key, value in row.items() if key not in changes}
    return kept | stored(queue_attributes(queue, given, kind))


def in_force(config: Config, row: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes in force for the queue of *row*, including those of its template."""
    held = bounds(config, row)
    return {
        attribute: row[ALIAS_OF] if attribute == ALIAS_OF else getattr(held, attribute)
        for attribute in _KNOWN[row["kind"]]
    }


def given_of(row: dict[str, Any]) -> list[str]:
    """Returns the attributes that were set for the queue of *row*. All others have defaults."""
    known = SUBSCRIPTION_ATTRIBUTES if row["kind"] == "subscription" else QUEUE_ATTRIBUTES
    return [attribute for attribute in known if attribute in row]


def is_same(row: dict[str, Any], given: dict[str, Any]) -> bool:
    """Returns whether a definition with *given* would create a queue with the row *row*.

    An inhibit that *given* does not contain makes no difference, because an operator set it on
    purpose.
    """
    own = own_of(row)
    unmentioned = {key: own[key] for key in INHIBITS if key in own and key not in given}
    return own == stored(given) | unmentioned


def own_of(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes in the *row* of a queue."""
    return {key: value for key, value in row.items() if key not in _IDENTITY}


def bounds(config: Config, attributes: dict[str, Any]) -> Bounds:
    """Returns the bounds of a queue with these attributes."""
    is_subscription = attributes.get("kind") == "subscription"
    known = _KNOWN["subscription" if is_subscription else "local"]
    given = {key: attributes[key] for key in known if key in attributes}
    defaults = config.queue_defaults.model_dump() | (_OF_SUBSCRIPTIONS if is_subscription else {})
    return Bounds(**defaults | given)


def put_inhibited_error(queue: str) -> RequestError:
    """Returns the error for a put on *queue* while puts are inhibited."""
    return _inhibited_error(ErrorCode.PUT_INHIBITED, queue, "put")


def get_inhibited_error(queue: str) -> RequestError:
    """Returns the error for a get from *queue* while gets are inhibited."""
    return _inhibited_error(ErrorCode.GET_INHIBITED, queue, "get")


def _inhibited_error(code: ErrorCode, queue: str, verb: str) -> RequestError:
    text = f"{verb}s are inhibited on queue {queue}; set its {verb}_inhibit to false to allow them"
    return RequestError(code, text, retry_after_ms=1_000)


def _check_known(queue: str, attribute: str, kind: str) -> None:
    if attribute not in _KNOWN[kind]:
        raise unknown_attribute_error("queues", queue, attribute, list(_KNOWN[kind]))
    if attribute == "unused_expiry_ms" and queue in system.ATTRIBUTES:
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"queues.{queue}.{attribute}: the queue manager itself needs {queue}, even if it is "
            "unused",
        )


def unknown_attribute_error(noun: str, name: str, attribute: str, known: list[str]) -> RequestError:
    """Returns the error for an unknown *attribute*. It names the closest or all attributes."""
    near = get_close_matches(attribute, known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known) or 'none'}"
    return RequestError(
        ErrorCode.VALUE_INVALID, f"{noun}.{name[:80]}.{attribute[:80]}: unknown attribute{hint}"
    )
