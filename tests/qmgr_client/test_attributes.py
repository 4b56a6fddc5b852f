"""Tests that the attribute classes match the tables of the daemon."""

from datetime import timedelta
from typing import Any, Literal, get_type_hints

import pytest

from qmgr_client.attributes import (
    QueueAttributes,
    SubscriptionAttributes,
    TemplateAttributes,
    TopicAttributes,
    encoded,
    without_none,
)
from qmgr_client.duration import Duration
from qmgr_client.rows import QueueRow, SubscriptionRow, TopicRow
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import (
    QUEUE_ATTRIBUTES,
    SUBSCRIPTION_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    Attribute,
)
from qmgrd.core.catalogue.attribute import INHIBITS
from qmgrd.core.catalogue.attributes import _KNOWN

FLAG = Attribute("flag")


def kind_of(attribute: Attribute, duration: Any) -> Any:
    """Returns the type of the values of *attribute*. Values in ms have the type *duration*."""
    if attribute.quantity == "choice":
        return Literal[attribute.choices]
    if attribute.quantity == "ms":
        return duration
    return {"flag": bool, "factor": float, "queue": str}.get(attribute.quantity, int)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (TemplateAttributes, QUEUE_ATTRIBUTES),
        (SubscriptionAttributes, SUBSCRIPTION_ATTRIBUTES | {"get_inhibit": FLAG}),
        (TopicAttributes, TOPIC_ATTRIBUTES),
    ],
)
def test_attributes_are_those_of_the_daemon(kind: Any, table: dict[str, Attribute]) -> None:
    assert get_type_hints(kind) == {
        name: kind_of(attribute, Duration) | None for name, attribute in table.items()
    }


def test_queue_has_what_a_template_has_and_its_state() -> None:
    own = dict.fromkeys(INHIBITS, bool | None) | {"alias_of": str}
    assert get_type_hints(QueueAttributes) == get_type_hints(TemplateAttributes) | own
    assert set(get_type_hints(QueueAttributes)) == {*_KNOWN["local"], *_KNOWN["alias"]}
    assert set(get_type_hints(SubscriptionAttributes)) == set(_KNOWN["subscription"])


@pytest.mark.parametrize(
    ("row", "table"),
    [
        (QueueRow, QUEUE_ATTRIBUTES),
        (SubscriptionRow, SUBSCRIPTION_ATTRIBUTES),
        (TopicRow, TOPIC_ATTRIBUTES),
    ],
)
def test_rows_have_the_attributes_in_force(row: Any, table: dict[str, Attribute]) -> None:
    hints = get_type_hints(row)
    for name, attribute in table.items():
        if (row, name) != (QueueRow, "overflow"):  # This attribute has two types in rows.
            assert hints[name] == kind_of(attribute, int), name
    of_subscriptions = kind_of(SUBSCRIPTION_ATTRIBUTES["overflow"], int)
    expected = kind_of(QUEUE_ATTRIBUTES["overflow"], int) | of_subscriptions
    assert get_type_hints(QueueRow)["overflow"] == expected


def test_durations_are_sent_in_ms_and_none_is_the_default() -> None:
    values = {"lease_ms": timedelta(seconds=5), "depth_max": 7, "retry_max_ms": None}
    assert encoded(values) == {"lease_ms": 5_000, "depth_max": 7, "retry_max_ms": None}
    assert without_none(values) == {"lease_ms": 5_000, "depth_max": 7}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([("depth_max", 1)], "attributes must be a mapping .*, not list"),
        ({"lease_ms": 0.5}, "lease_ms is of type float"),
    ],
)
def test_invalid_attributes_are_refused(wrong: Any, text: str) -> None:
    with pytest.raises(RequestError, match=text) as caught:
        encoded(wrong)
    assert caught.value.code is ErrorCode.VALUE_INVALID
