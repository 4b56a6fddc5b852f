"""Tests the rights that requests need."""

from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import EACH, Kind, Need, Right

NEEDS = [x for found in OPERATIONS.values() if found.request for x in found.request.needs]


def test_each_right_and_each_kind_of_object_is_needed_by_a_request() -> None:
    """A right that no request needs would be granted in vain."""
    # A put to a topic, and a message of another queue manager that arrives over a link.
    unused = {Right.PUBLISH, Right.FORWARD}
    assert {need.right for need in NEEDS} == set(Right) - unused
    by_name = {Kind.QUEUE, Kind.TOPIC, Kind.SUBSCRIPTION, Kind.DESTINATION, Kind.SOURCE}
    assert {need.kind for need in NEEDS} >= by_name


def test_right_that_every_user_has_names_no_object() -> None:
    assert {need for need in NEEDS if need.right is Right.CONNECT} == {Need(Right.CONNECT)}


def test_lists_show_each_object_by_the_right_to_show() -> None:
    assert {need.right for need in NEEDS if need.field == EACH} == {Right.SHOW}
