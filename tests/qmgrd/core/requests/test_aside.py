"""Tests that operators can list, retry and drop work that was set aside."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.limits.work import WorkId
from tests.qmgrd.core.context.test_aside import add
from tests.qmgrd.core.harness import Client


def test_list_comes_in_pages(app: Client) -> None:
    for number in range(5):
        add(app.manager, WorkId("job", number))
    first = app.ask(m.AsideList, 0, 3)
    assert ([item["number"] for item in first["items"]], first["next"]) == ([1, 2, 3], 3)
    second = app.ask(m.AsideList, 3, 3)
    assert ([item["number"] for item in second["items"]], second["next"]) == ([4, 5], None)
    assert first["items"][0] | {"set_aside_us": 0} == {
        "number": 1,
        "kind": "job",
        "key": "",
        "what": "a thing",
        "why": "a test",
        "set_aside_us": 0,
        "bytes": 0,
    }


def test_work_is_retried_and_that_is_logged(app: Client) -> None:
    add(app.manager, WorkId("events"))
    item = app.ask(m.AsideRetry, 1)
    assert (item["kind"], item["retried"]) == ("events", "at once")
    assert app.manager.last.notes[0].facts["by"] == "app"
    assert app.ask(m.AsideList)["items"] == []


def test_row_is_dropped_but_work_is_not(app: Client) -> None:
    add(app.manager, WorkId("row", b"\x06x"), b"row")
    add(app.manager, WorkId("link", "NYC"))
    assert app.ask(m.AsideDrop, 1)["bytes"] == 3
    assert app.code_of(m.AsideDrop, 2) is ErrorCode.VALUE_INVALID
    assert app.code_of(m.AsideRetry, 1) is ErrorCode.ASIDE_UNKNOWN
    assert app.code_of(m.AsideDrop, 1) is ErrorCode.ASIDE_UNKNOWN
