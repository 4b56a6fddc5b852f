import json
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.system import EVENTS
from qmgrd.core.context.context import BeginSwitchOver
from qmgrd.process.journal_state import JournalState, moved, switch_over
from qmgrd.store.logged_store import LoggedStore
from tests.qmgrd.core.harness import Manager

FACTS = {"member": "nyc1", "epoch": 3, "why": "the first start"}


class Server:
    """A server that has been away for *away_s*."""

    def __init__(self) -> None:
        self.away_s = 0.0
        self.trouble = ""


@pytest.fixture
def server() -> Server:
    return Server()


async def prepare(member: str) -> dict[str, Any]:
    """Returns the answer of a switch-over to *member*. A member "away" is refused."""
    if member == "away":
        raise RequestError(ErrorCode.NO_STANDBY, "it is away")
    return {"member": member or "nyc2"}


@pytest.fixture
def state(server: Server, tmp_path: Path) -> JournalState:
    store = LoggedStore(tmp_path, 1 << 24, b"12345678")
    store.close()
    return JournalState(store, server, 2_000, FACTS.copy, prepare)


def test_clients_are_refused_after_the_wait(server: Server, state: JournalState) -> None:
    assert state.refusal() is None
    server.away_s, server.trouble = 2.0, "connection refused"
    assert state.refusal() is None
    server.away_s = 2.001
    goodbye = state.refusal()
    assert goodbye is not None
    assert goodbye.code == ErrorCode.JOURNAL_AWAY
    assert "waited for its server for 2001 ms: connection refused" in goodbye.text
    assert goodbye.retry_after_ms > 0


def test_facts_are_those_of_the_member_too(server: Server, state: JournalState) -> None:
    server.trouble = "connection refused"
    assert state.facts() == {
        "journal": {"place": "postgresql", "record": 0, "trouble": "connection refused", **FACTS}
    }


def test_goodbye_of_a_former_active_member_has_the_reason() -> None:
    goodbye = moved(ValueError("nyc2 is active"), "NYC")
    assert goodbye.code == ErrorCode.NOT_ACTIVE
    assert goodbye.text == "this member of NYC is a standby: nyc2 is active"


def test_start_is_an_event(state: JournalState) -> None:
    manager = Manager()
    manager.turns.intake.event(0, state.report_start)
    manager.turn()
    manager.rest()
    (body,) = manager.connect().bodies(EVENTS)
    event = json.loads(body)
    assert {key: event[key] for key in ("event", *FACTS)} == {"event": "member active", **FACTS}


async def test_switch_over_begins_once_for_an_epoch(state: JournalState) -> None:
    for epoch in (0, 3):
        switch = await switch_over(state, BeginSwitchOver(1, 2, "", epoch))
        assert switch == ({"member": "nyc2"}, True)
    sent_again = await switch_over(state, BeginSwitchOver(1, 2, "", 2))
    assert sent_again == ({"member": "nyc1", "epoch": 3, "addresses": []}, False)


async def test_switch_over_without_a_standby_is_refused(state: JournalState) -> None:
    answer, is_begun = await switch_over(state, BeginSwitchOver(1, 2, "away", 0))
    assert (str(answer), is_begun) == ("NO_STANDBY: it is away", False)
    answer, is_begun = await switch_over(None, BeginSwitchOver(1, 2, "", 0))
    assert isinstance(answer, RequestError)
    assert (answer.code, is_begun) == (ErrorCode.NO_STANDBY, False)
    assert "is local, so no other process can become active" in answer.text
