from typing import Any

import pytest

from qmgr_protocol import layout, topic_messages
from qmgr_protocol import messages as m
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.states import FROM_DIALLER, FROM_LISTENER

KINDS = [getattr(topic_messages, name) for name in topic_messages.__all__]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_is_a_request_like_any_other(kind: type[Any]) -> None:
    assert getattr(m, kind.__name__) is kind
    assert kind._fields[0] == "request_id"
    assert kind in layout.NUMBERS
    assert kind in FROM_DIALLER
    assert kind not in FROM_LISTENER


def test_all_of_them_are_named() -> None:
    made = [name for name, kind in vars(topic_messages).items() if hasattr(kind, "_fields")]
    assert sorted(made) == sorted(topic_messages.__all__)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (m.Subscribe(1, 7), "Subscribe.topic: 7 is not text"),  # type: ignore[arg-type]
        (m.Subscribe(1, "a", "", "x" * 4_097), r"Subscribe\.where: .* at most 4,?096"),
        (m.Subscribe(1, "a", "", "", {"depth_max": {}}), "under 'depth_max'"),
        (m.SubscriptionList(1, "", 0), r"SubscriptionList\.limit: 0 is not an integer from 1 to"),
        (m.SubscriptionList(1, "", 1_001), r"SubscriptionList\.limit: 1001 is not"),
        (m.TopicDelete(1, "a", 1), r"TopicDelete\.retained: "),  # type: ignore[arg-type]
        (m.TopicLacks(1, b"u" * 73), r"TopicLacks\.uid: "),
        (m.RepublishList(1, [7]), r"RepublishList\.after: "),
        (m.RepublishList(1, [7, 2**32]), r"RepublishList\.after: "),
        (m.Republish(1, subscriptions=["a"] * 1_001), r"Republish\.subscriptions: "),
        (m.Republish(1, rate=2**32), r"Republish\.rate: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, tuple) else "",
)
def test_field_out_of_range_is_refused_in_words(message: Any, why: str) -> None:
    with pytest.raises(FieldInvalid, match=why):
        layout.parse(list(layout.to_array(message)))


def test_place_in_the_list_of_what_is_parked_is_taken_back_as_it_was_told() -> None:
    message = m.RepublishList(1, [2**63 - 1, 2**32 - 1])
    assert layout.parse(list(layout.to_array(message))) == message
