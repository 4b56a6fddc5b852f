"""Checks that a stored row is valid: its values have the right types and are in bounds.

A checksum shows only that a row was not altered. A row that passes these checks cannot make a start
or a turn fail, regardless of who wrote it. Unknown fields belong to newer versions and are kept.
"""

from collections.abc import Mapping
from typing import Any

from qmgr_protocol import name as names
from qmgr_protocol import topic as topics
from qmgr_protocol.limits import (
    QUEUE_ATTRIBUTES,
    SUBSCRIPTION_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    Attribute,
)
from qmgrd.core.catalogue.attribute import ALIAS_OF, INHIBITS
from qmgrd.core.catalogue.link_attributes import altered
from qmgrd.core.catalogue.system import PUBLICATIONS
from qmgrd.core.catalogue.templates import check_pattern
from qmgrd.core.layout import keys
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.value_checks import NUMBER_MAX, number, typed

# The tables, in the order in which the forms of their names are numbered.
_KINDS = ("local", "remote", "transmission")
_LINK_ATTRIBUTES = ("addresses", "connections", "ordered", "fetch", "routes", "transit")


def _attributes(row: dict[str, Any], known: Mapping[str, Attribute]) -> None:
    """Checks the types of the *known* attributes in *row*, but not their limits.

    The limits may have changed since the row was written. A value that was accepted once remains in
    force.
    """
    for name in known.keys() & row.keys():
        value, attribute = row[name], known[name]
        if attribute.quantity == "factor" and type(value) is float:
            if not 0 <= value <= NUMBER_MAX:
                raise ValueError(f"{name} is {value}")
        elif attribute.is_number:
            number(value, name, -1)
        elif attribute.quantity == "flag":
            typed(bool, value, name)
        else:
            typed(str, value, name)
            if attribute.choices and value not in attribute.choices:
                raise ValueError(f"{name} is {value!r}, not one of {attribute.choices}")
    for inhibit in (*INHIBITS, "suspended"):
        typed(bool, row.get(inhibit, False), inhibit)


def queue(name: str, row: Any, next_id: int) -> dict[str, Any]:
    """Returns the *row* that defines the queue or subscription *name*, after checking it.

    Raises:
        ValueError, KeyError, RequestError: The row is invalid.
    """
    typed(dict, row, "the row")
    kind = row["kind"]
    if topics.is_subscription(name):
        return _subscription(name, row, next_id)
    target, manager = names.split(name)
    if name == PUBLICATIONS or kind == "publications":
        if (name, kind, row["queue_id"]) != (PUBLICATIONS, "publications", keys.PUBLICATIONS_ID):
            raise ValueError(f"{name} is not the queue of publications")
    elif kind == "alias":
        if not target or manager or not names.split(typed(str, row[ALIAS_OF], ALIAS_OF))[0]:
            raise ValueError(f"{name} is not an alias of {row[ALIAS_OF]!r}")
    elif kind != _KINDS[(not target) + bool(manager)]:
        raise ValueError(f"{name} is not a {kind!r} queue")
    elif kind != "remote":
        number(row["queue_id"], "the queue id", 1, min(next_id - 1, keys.QUEUE_ID_MAX))
    number(row.get("used_ms", 0), "the time of its last use")
    typed(str, row.get("owner", ""), "the owner")
    _attributes(row, QUEUE_ATTRIBUTES)
    return dict(row)


def _subscription(name: str, row: dict[str, Any], next_id: int) -> dict[str, Any]:
    is_proxy = "@" in name
    if row["kind"] != ("proxy" if is_proxy else "subscription"):
        raise ValueError(f"{name} is not a {row['kind']!r}")
    topics.filter_of(typed(str, row["topic"], "the topic"))
    typed(str, row.get("where", ""), "the selector")
    typed(str, row.get("owner", ""), "the owner")
    if not name.startswith(topics.DYNAMIC):
        topics.check_subscription(name)
    number(row["first"], "the first publication")
    number(row.get("used_ms", 0), "the time of its last use")
    if not is_proxy:
        number(row["queue_id"], "the queue id", 1, min(next_id - 1, keys.QUEUE_ID_MAX))
    _attributes(row, SUBSCRIPTION_ATTRIBUTES)
    return row


def counters(found: Counters) -> None:
    """Raises ValueError if the counters of a queue are impossible."""
    for name, value in found.as_dict().items():
        number(value, f"{name} in the counters")


def template(pattern: str, row: Any) -> dict[str, Any]:
    """Returns the *row* of the template *pattern*. Raises the same errors as :func:`queue`."""
    check_pattern(pattern)
    _attributes(typed(dict, row, "the row"), QUEUE_ATTRIBUTES)
    return dict(row)


def topic(name: str, row: Any) -> dict[str, Any]:
    """Returns the *row* of the topic *name*. Raises the same errors as :func:`queue`."""
    topics.levels_of(name)
    _attributes(typed(dict, row, "the row"), TOPIC_ATTRIBUTES)
    return dict(row)


def link(name: str, row: Any) -> dict[str, Any]:
    """Returns the *row* of the link *name*. Raises the same errors as :func:`queue`."""
    names.check(name)
    typed(dict, row, "the row")
    typed(bool, row["stopped"], "stopped")
    number(row["queue_id"], "the queue id", 1, keys.QUEUE_ID_MAX)
    number(row.get("stream", 0), "the number of its stream")
    number(row.get("base_id", 1), "the first id of its stream")
    number(row.get("lost", 0), "the number of lost messages")
    number(row.get("lost_us") or 0, "the time of the loss")
    given = {key: row[key] for key in _LINK_ATTRIBUTES if key in row}
    altered(name, {"addresses": row["addresses"]} | given)
    return dict(row)
