import pytest

from qmgr_protocol.errors import RequestError
from qmgr_tools.topic import name as topic_name


def test_topic_may_have_the_mark_of_a_destination() -> None:
    assert topic_name.bare("/flights/JFK") == topic_name.bare("flights/JFK") == "flights/JFK"


def test_name_of_a_queue_is_none_of_a_subscription() -> None:
    for name in ("B:late", ":late", "~1.2", ":hub@NYC"):
        assert topic_name.subscription(name) == name
    with pytest.raises(RequestError, match="not the name of a subscription"):
        topic_name.subscription("ORDERS")
