"""Tests of the answers to operators about templates."""

from qmgr_protocol import messages as m
from tests.qmgrd.core.harness import Client


def test_answer_has_the_changed_values(app: Client) -> None:
    row = app.ask(m.TemplateSet, "Q*", {"depth_max": 3, "lease_ms": None})
    assert row == {
        "pattern": "Q*",
        "attributes": {"depth_max": 3},
        "queues": 1,
        "created": True,
        "changed": {"depth_max": [None, 3]},
    }
    row = app.ask(m.TemplateSet, "Q*", {"lease_ms": 100})
    assert (row["created"], row["attributes"]) == (False, {"lease_ms": 100})
    assert row["changed"] == {"depth_max": [3, None], "lease_ms": [None, 100]}
    row = app.ask(m.TemplateSet, "Q*", {"lease_ms": 100})
    assert (row["created"], row["changed"]) == (False, {})


def test_template_that_is_new_and_empty_is_one(app: Client) -> None:
    assert app.ask(m.TemplateSet, "Q*")["created"]
    assert [row["pattern"] for row in app.ask(m.TemplateList)["templates"]] == ["Q*"]


def test_list_is_in_order_of_patterns_with_numbers_of_queues(app: Client) -> None:
    for pattern in ("Z*", "*", "Q"):
        app.ask(m.TemplateSet, pattern)
    app.ask(m.QueueCreate, "A")
    app.ask(m.QueueCreate, "B")
    rows = app.ask(m.TemplateList)["templates"]
    assert [(row["pattern"], row["queues"]) for row in rows] == [("*", 2), ("Q", 1), ("Z*", 0)]


def test_lease_of_a_template_is_that_of_the_next_get(app: Client) -> None:
    app.ask(m.TemplateSet, "Q", {"lease_ms": 100})
    app.put("Q", b"x")
    app.get("Q")
    app.manager.turn(100)
    assert [(got.body, got.failed) for got in app.get("Q")] == [(b"x", 1)]
