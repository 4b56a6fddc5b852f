"""Tests of the destinations of puts."""

import pytest

from qmgr_client import destination
from qmgr_protocol.errors import ErrorCode, RequestError


@pytest.mark.parametrize(
    "name", ["ORDERS", "FLIGHTS@NYC", "@NYC", "/flights/JFK/UA", "BILLING:late", "~2-4f2a.17"]
)
def test_queue_topic_and_subscription_are_left_to_the_queue_manager(name: str) -> None:
    destination.check(name)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ErrorCode.NAME_INVALID),
        ("a b", ErrorCode.NAME_INVALID),
        ("flights/JFK", ErrorCode.NAME_INVALID),
        ("/", ErrorCode.TOPIC_INVALID),
        ("//flights", ErrorCode.TOPIC_INVALID),
        ("/flights/+/UA", ErrorCode.TOPIC_INVALID),
        ("/flights@NYC", ErrorCode.TOPIC_INVALID),
    ],
)
def test_invalid_destination_is_refused_at_once(name: str, code: ErrorCode) -> None:
    with pytest.raises(RequestError) as caught:
        destination.check(name)
    assert caught.value.code == code
