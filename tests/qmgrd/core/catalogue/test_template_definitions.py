"""Tests that a defined template applies to all queues whose names match it."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.template_definitions import TemplateDefinitions
from qmgrd.core.catalogue.templates import TEMPLATES_MAX, Template
from tests.qmgrd.core.harness import AnyStore, Client, record


def held(app: Client, queue: str, attribute: str = "depth_max") -> tuple[Any, str | None]:
    """Returns the value that applies to a queue, and the template that sets it."""
    row = app.show(queue)
    return row[attribute], row["template"]


def test_template_applies_at_once_to_existing_and_new_queues(app: Client) -> None:
    app.ask(m.QueueCreate, "APP.A")
    assert held(app, "APP.A") == (100_000_000, None)
    app.ask(m.TemplateSet, "APP.*", {"depth_max": 1})
    app.ask(m.QueueCreate, "APP.B")
    for queue in ("APP.A", "APP.B"):
        assert held(app, queue) == (1, "APP.*")
        assert app.show(queue)["given"] == []
        app.put(queue, b"x")
        assert app.put_records(queue, record(b"y"))[0].code is ErrorCode.QUEUE_FULL
    assert held(app, "Q") == (100_000_000, None)
    app.ask(m.TemplateSet, "APP.*", {"depth_max": 2})
    app.put("APP.A", b"y")


def test_own_attribute_goes_before_the_template(app: Client) -> None:
    app.ask(m.TemplateSet, "*", {"depth_max": 5, "exclusive": True, "lease_ms": 700})
    row = app.ask(m.QueueCreate, "OWN", {"depth_max": 9, "exclusive": False})
    assert (row["depth_max"], row["exclusive"], row["lease_ms"]) == (9, False, 700)
    row = app.ask(m.QueueAlter, "OWN", {"depth_max": None})
    assert row["changed"] == {"depth_max": [9, 5]}
    assert app.ask(m.QueueAlter, "OWN", {"depth_max": 5})["changed"] == {}


def test_most_specific_template_alone_is_in_force(app: Client) -> None:
    app.ask(m.QueueCreate, "APP.A.IN")
    app.ask(m.TemplateSet, "*", {"depth_max": 1, "lease_ms": 900})
    app.ask(m.TemplateSet, "APP.*", {"depth_max": 2})
    assert held(app, "APP.A.IN") == (2, "APP.*")
    assert held(app, "APP.A.IN", "lease_ms") == (30_000, "APP.*")
    app.ask(m.TemplateSet, "*.IN", {"depth_max": 3})
    assert held(app, "APP.A.IN") == (2, "APP.*")
    app.ask(m.TemplateSet, "*A.IN", {"depth_max": 4})
    assert held(app, "APP.A.IN") == (4, "*A.IN")
    assert app.ask(m.TemplateDelete, "*A.IN") == {"pattern": "*A.IN", "queues": 1}
    assert held(app, "APP.A.IN") == (2, "APP.*")
    app.ask(m.TemplateDelete, "APP.*")
    assert held(app, "APP.A.IN") == (3, "*.IN")
    app.ask(m.TemplateDelete, "*.IN")
    assert held(app, "APP.A.IN", "lease_ms") == (900, "*")
    app.ask(m.TemplateDelete, "*")
    assert held(app, "APP.A.IN") == (100_000_000, None)


def test_first_in_the_alphabet_is_in_force_of_two_as_specific(app: Client) -> None:
    app.ask(m.QueueCreate, "AB")
    app.ask(m.TemplateSet, "A*", {"depth_max": 1})
    app.ask(m.TemplateSet, "*B", {"depth_max": 2})
    assert held(app, "AB") == (2, "*B")


def test_templates_survive_a_restart(store: AnyStore, app: Client) -> None:
    app.ask(m.TemplateSet, "APP.*", {"depth_max": 1, "retry_factor": 1.5})
    app.ask(m.TemplateSet, "GONE.*", {"depth_max": 2})
    app.ask(m.TemplateDelete, "GONE.*")
    app.ask(m.QueueCreate, "APP.A")
    app.manager.crash()
    app = app.manager.connect()
    assert held(app, "APP.A", "retry_factor") == (1.5, "APP.*")
    assert app.ask(m.TemplateList)["templates"] == [
        {"pattern": "APP.*", "attributes": {"depth_max": 1, "retry_factor": 1.5}, "queues": 1}
    ]


def test_other_kinds_of_queues_have_no_template(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    app.ask(m.QueueCreate, "S", {"alias_of": "Q"})
    app.ask(m.TemplateSet, "*", {"depth_max": 3})
    assert held(app, "@NYC") == (100_000_000, None)
    assert held(app, "SYSTEM.DEAD.LETTERS") == (100_000_000, None)
    assert "template" not in app.show("S")


def test_deleted_queue_leaves_its_template(app: Client) -> None:
    app.ask(m.TemplateSet, "Q", {"depth_max": 3})
    assert app.ask(m.TemplateList)["templates"][0]["queues"] == 1
    app.ask(m.QueueDelete, "Q")
    assert app.ask(m.TemplateList)["templates"][0]["queues"] == 0
    assert app.ask(m.QueueCreate, "Q")["depth_max"] == 3


def test_template_that_would_have_a_queue_back_out_to_itself_is_refused(app: Client) -> None:
    app.ask(m.QueueCreate, "APP.BACK")
    for pattern in ("APP.*", "*"):
        with pytest.raises(RequestError, match=r"backout queue of queue APP\.BACK: template") as c:
            app.ask(m.TemplateSet, pattern, {"backout_queue": "APP.BACK"})
        assert c.value.code is ErrorCode.VALUE_INVALID
    assert app.ask(m.TemplateList)["templates"] == []
    app.ask(m.QueueAlter, "APP.BACK", {"backout_queue": ""})
    app.ask(m.TemplateSet, "APP.*", {"backout_queue": "APP.BACK"})
    assert held(app, "APP.BACK", "backout_queue") == ("", "APP.*")
    code = app.code_of(m.QueueAlter, "APP.BACK", {"backout_queue": None})
    assert code is ErrorCode.VALUE_INVALID
    app.ask(m.QueueDelete, "APP.BACK")
    assert app.code_of(m.QueueCreate, "APP.BACK") is ErrorCode.VALUE_INVALID


def test_template_is_kept_that_shields_a_queue_from_another(app: Client) -> None:
    app.ask(m.QueueCreate, "BACK")
    app.ask(m.TemplateSet, "BACK*", {})
    app.ask(m.TemplateSet, "*", {"backout_queue": "BACK"})
    assert app.code_of(m.TemplateDelete, "BACK*") is ErrorCode.VALUE_INVALID
    assert held(app, "BACK", "backout_queue") == ("", "BACK*")
    app.ask(m.TemplateDelete, "*")
    app.ask(m.TemplateDelete, "BACK*")


def test_templates_are_limited(app: Client) -> None:
    for number in range(TEMPLATES_MAX):
        app.ask(m.TemplateSet, f"T{number}.*")
    with pytest.raises(RequestError, match=r"1000 templates exist \(the limit is 1000\)") as caught:
        app.ask(m.TemplateSet, "ONE.MORE")
    assert caught.value.code is ErrorCode.TEMPLATES_EXHAUSTED
    app.ask(m.TemplateSet, "T7.*", {"depth_max": 1})


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ((m.TemplateSet, "a b"), ErrorCode.NAME_INVALID),
        ((m.TemplateSet, "Q@NYC"), ErrorCode.NAME_INVALID),
        ((m.TemplateSet, "*", {"depth_max": 0}), ErrorCode.VALUE_INVALID),
        ((m.TemplateSet, "*", {"put_inhibit": True}), ErrorCode.VALUE_INVALID),
        ((m.TemplateDelete, "a b"), ErrorCode.NAME_INVALID),
        ((m.TemplateDelete, "APP.*"), ErrorCode.TEMPLATE_UNKNOWN),
    ],
)
def test_invalid_request_is_refused_and_changes_nothing(
    app: Client, request_: tuple[Any, ...], code: ErrorCode
) -> None:
    before = app.show("Q")
    assert app.code_of(*request_) is code
    assert app.ask(m.TemplateList)["templates"] == []
    assert app.show("Q") == before


def test_deletion_checks_templates_of_its_own_names_only(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check compares the pattern with all others. A check of 1,000 templates took a second."""
    looked: list[str] = []

    def look(self: TemplateDefinitions, template: Template) -> None:
        looked.append(template.pattern)

    for number in range(20):
        app.ask(m.TemplateSet, f"A.{number}.*", {"backout_queue": f"B.{number}"})
    app.ask(m.TemplateSet, "B.7*", {"depth_max": 1})
    monkeypatch.setattr(TemplateDefinitions, "_check_backout_queue", look)
    app.ask(m.TemplateDelete, "B.7*")
    assert looked == ["A.7.*"]
