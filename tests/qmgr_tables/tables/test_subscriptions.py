"""Tests of the table of subscriptions."""

import json
from pathlib import Path

from tests.qmgr_tables.office import by
from tests.qmgr_tables.snapshots import rows


def test_subscription_shows_who_wants_what(office: Path) -> None:
    found = by(rows(office, table="subscriptions"), "subscription")
    assert list(found) == [":copy@NYC", "A:bad", "B:late", "~1-535353535353.1"]
    late = found["B:late"]
    assert (late["client"], late["topic"], late["selector"]) == ("B", "flights/+", "delay > 15")
    assert (late["durable"], late["backlog"], late["parked"]) == (True, 1, 0)
    assert json.loads(late["attributes"]) == {"redelivery_limit": 1}
    assert (found["A:bad"]["backlog"], found["A:bad"]["parked"]) == (0, 2)


def test_one_that_goes_on_has_no_queue_here(office: Path) -> None:
    proxy = by(rows(office, table="subscriptions"), "subscription")[":copy@NYC"]
    assert (proxy["client"], proxy["manager"], proxy["backlog"]) == ("", "NYC", None)


def test_one_of_a_connection_is_nobodys(office: Path) -> None:
    (own,) = rows(office, table="subscriptions", queuesPattern="~.*")
    assert (own["client"], own["durable"], own["topic"]) == (None, False, "other")


def test_damaged_row_has_its_name_and_what_is_wrong(tmp_path: Path) -> None:
    from qmgrd.core.layout import keys
    from tests.qmgr_tables import office as offices
    from tests.qmgr_tables.damage import damaged_copy

    copy = damaged_copy(offices.make(tmp_path), keys.SPACE_QUEUE + b"B:late")
    found = by(rows(copy, table="subscriptions", verify="false"), "subscription")
    assert found["B:late"]["damage"] == "the definition of queue B:late: its checksum is wrong"
    assert found["A:bad"]["damage"] is None
    queues = by(rows(copy, table="queues", verify="false"), "queue")
    assert (queues["B:late"]["config"], queues["B:late"]["depth"]) == (None, 1)
    assert queues["B:late"]["damage"] == found["B:late"]["damage"]
