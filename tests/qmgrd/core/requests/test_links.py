"""Tests of the answers to operators about links. context/test_peers.py tests accepted peers."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.harness import Client

LINK = {"addresses": ["h:1"]}


def test_link_is_deleted_after_its_remote_queues_and_messages(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"1")
    assert app.code_of(m.LinkDelete, "NYC") is ErrorCode.QUEUE_IN_USE
    app.ask(m.QueueDelete, "F@NYC")
    assert app.code_of(m.LinkDelete, "NYC") is ErrorCode.LINK_NOT_EMPTY
    assert app.ask(m.LinkDelete, "NYC", True) == {"messages": 1}
    app.manager.rest()
    app.manager.crash()
    app = app.manager.connect()
    assert app.ask(m.LinkList)["links"] == []
    assert app.code_of(m.QueueShow, "@NYC") is ErrorCode.QUEUE_UNKNOWN


def test_stopped_link_stays_so_over_a_crash(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    assert app.ask(m.LinkShow, "NYC")["state"] == "dialling"
    assert app.ask(m.LinkStop, "NYC")["state"] == "stopped"
    app.manager.crash()
    app = app.manager.connect()
    assert app.ask(m.LinkShow, "NYC")["state"] == "stopped"
    assert app.ask(m.LinkStart, "NYC")["state"] == "dialling"


def test_altered_link_is_logged_unless_it_was_so(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    for noted in (True, False):
        app.ask(m.LinkAlter, "NYC", {"addresses": ["h:2"]})
        notes = [note.facts for note in app.manager.last.notes if note.event == "link altered"]
        changed = {"addresses": [LINK["addresses"], ["h:2"]]}
        assert notes == ([{"link": "NYC", "changed": changed}] if noted else [])


def test_link_may_be_made_stopped(app: Client) -> None:
    assert app.ask(m.LinkCreate, "NYC", LINK | {"stopped": True})["state"] == "stopped"
    assert [link["link"] for link in app.ask(m.LinkList)["links"]] == ["NYC"]


def test_missing_link_names_how_to_create_it_or_that_it_leads_here_only(app: Client) -> None:
    for kind in (m.LinkShow, m.LinkStart, m.LinkStop, m.LinkDelete):
        app.send(kind(50, "NYC"))
        app.manager.turn()
        assert "link NYC does not exist; create it" in app.hear()[0].text
    app.ask(m.LinkAllow, "NYC")
    app.send(m.LinkDelete(50, "NYC"))
    app.manager.turn()
    assert app.hear()[0].text.endswith(
        "may open links to this queue manager; to end these links, disallow NYC"
    )
    assert app.code_of(m.LinkDelete, "NYC") is ErrorCode.LINK_UNKNOWN
