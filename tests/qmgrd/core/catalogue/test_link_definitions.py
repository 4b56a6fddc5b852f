"""Tests of definitions of links: their addresses, and their transmission queues."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgrd.core.harness import AnyStore, Client, Manager

LINK = {"addresses": ["h:1"]}


def test_links_are_limited() -> None:
    app = Manager(limits={"links_max": 1}).connect()
    app.ask(m.LinkCreate, "A", LINK)
    assert app.code_of(m.LinkCreate, "B", LINK) is ErrorCode.LINKS_EXHAUSTED


def test_link_to_ourselves_is_refused(app: Client) -> None:
    """The error shows the name, and not the address."""
    with pytest.raises(
        RequestError, match="itself; name the link after the other queue manager"
    ) as caught:
        app.ask(m.LinkCreate, "QM1", LINK)
    assert caught.value.code == ErrorCode.PEER_WRONG


def test_other_address_of_a_link_is_refused(app: Client) -> None:
    first = app.ask(m.LinkCreate, "NYC", LINK)
    assert app.ask(m.LinkCreate, "NYC", LINK) == first
    with pytest.raises(
        RequestError, match=r"with addresses h:1, not h:2; alter its addresses instead$"
    ):
        app.ask(m.LinkCreate, "NYC", {"addresses": ["h:2"]})
    assert app.code_of(m.LinkCreate, "NYC", {"addresses": ["h:2"]}) is ErrorCode.LINK_EXISTS


def test_new_addresses_are_stored_and_reported(store: AnyStore, app: Client) -> None:
    before = LINK["addresses"]
    app.ask(m.LinkCreate, "NYC", LINK)
    row = app.ask(m.LinkAlter, "NYC", {"addresses": ["h:2", "unix:/x"]})
    assert row["changed"] == {"addresses": [before, ["h:2", "unix:/x"]]}
    assert app.ask(m.LinkAlter, "NYC", {"addresses": ["h:2", "unix:/x"]})["changed"] == {}
    app.manager.crash()
    app = app.manager.connect()
    row = app.ask(m.LinkShow, "NYC")
    assert (row["addresses"], row["state"]) == (["h:2", "unix:/x"], "dialling")


@pytest.mark.parametrize(
    "changes", [{}, {"addresses": ["h"]}, {"addresses": ["h:2"], "stopped": True}]
)
def test_alteration_that_cannot_be_leaves_a_link_as_it_is(
    app: Client, changes: dict[str, Any]
) -> None:
    row = app.ask(m.LinkCreate, "NYC", LINK | {"stopped": True})
    assert app.code_of(m.LinkAlter, "NYC", changes) is ErrorCode.VALUE_INVALID
    assert app.ask(m.LinkShow, "NYC") | {"down_ms": 0} == row | {"down_ms": 0}


@pytest.mark.parametrize("kind", [m.LinkShow, m.LinkAlter, m.LinkStart, m.LinkStop, m.LinkDelete])
def test_unknown_link_differs_from_an_invalid_name(app: Client, kind: type) -> None:
    assert app.code_of(kind, "NYC") is ErrorCode.LINK_UNKNOWN
    assert app.code_of(kind, "a/b") is ErrorCode.NAME_INVALID
