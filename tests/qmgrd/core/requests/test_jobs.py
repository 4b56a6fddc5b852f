"""Tests of the answers to operators about jobs. Other tests cover the effects of jobs."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgrd.core.harness import Client


def test_move_is_answered_at_once_with_its_row(app: Client) -> None:
    app.ask(m.QueueCreate, "OLD")
    app.put("Q", *[b"x"] * 2_000)
    row = app.ask(m.QueueMove, "Q", "OLD", "size = 1", 1_500, 0)
    assert (row["kind"], row["state"], row["total"], row["ended_us"]) == (
        "move",
        "running",
        2_000,
        None,
    )
    assert (row["where"], row["messages_max"], row["retries_max"]) == ("size = 1", 1_500, 3)
    app.manager.rest()
    assert app.ask(m.JobShow, row["job"])["done"] == 1_500


def test_list_is_in_the_order_of_starts(app: Client) -> None:
    app.ask(m.QueueCreate, "SHUT", {"put_inhibit": True})
    app.put("Q", b"x")
    waiting = app.ask(m.QueueMove, "Q", "SHUT")["job"]
    app.ask(m.QueuePurge, "SHUT")
    rows = app.ask(m.JobList)["jobs"]
    assert [row["kind"] for row in rows] == ["move", "purge"]
    assert rows[0]["job"] == waiting


def test_refusal_states_the_fault_and_the_remedy(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    said = []
    for fields in (("Q", "Q"), ("Q", "@NYC"), ("@NYC", "Q"), ("Q", "", "", 0, 0, True)):
        try:
            app.ask(m.QueueMove, *fields)
        except RequestError as error:
            said.append(error.text)
    assert said == [
        "Q is queue Q itself; choose another target",
        "@NYC is a transmission queue; name a remote queue, such as QUEUE@NYC",
        "@NYC is a transmission queue: its messages are numbered, so a move would leave gaps; "
        "delete the link and its messages instead",
        "a copy needs a target: give one, or move dead letters back instead",
    ]


def test_nothing_is_moved_to_a_subscription_or_off_all_publications(app: Client) -> None:
    app.ask(m.Subscribe, "a/#", "B:s")
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.Subscribe, "a/#", ":s@NYC")
    codes = [
        app.code_of(m.QueueMove, "Q", name) for name in ("B:s", ":s@NYC", "SYSTEM.PUBLICATIONS")
    ]
    assert codes == [ErrorCode.QUEUE_IS_SUBSCRIPTION] * 3
    for kind in (m.QueueMove, m.QueuePurge):
        fields = ("SYSTEM.PUBLICATIONS", "Q")[: 2 if kind is m.QueueMove else 1]
        with pytest.raises(RequestError, match="stores the messages of subscriptions: purge"):
            app.ask(kind, *fields)
    app.put("/a", b"x")
    row = app.ask(m.QueueMove, "B:s", "Q")
    app.manager.rest()
    assert app.ask(m.JobShow, row["job"])["done"] == 1
