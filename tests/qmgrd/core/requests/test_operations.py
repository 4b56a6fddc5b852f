"""Tests that each request has one handler, and that the handler accepts this request."""

from collections import Counter

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS
from qmgrd.core.requests.operations import _rows, row
from qmgrd.core.sessions.request_part import SettlePart, UnitPutPart
from qmgrd.core.sessions.session import Session
from tests.qmgrd.core.harness import Manager

REQUESTS = {found.kind for found in OPERATIONS.values() if found.request is not None}


def test_each_request_has_a_handler() -> None:
    kinds = [kind for kind, _ in _rows(Manager().turns.broker.services)]
    assert set(kinds) == REQUESTS | {m.Piece, SettlePart, UnitPutPart}
    assert len(kinds) == 82


def test_no_request_has_two_handlers() -> None:
    counted = Counter(kind for kind, _ in _rows(Manager().turns.broker.services))
    assert set(counted.values()) == {1}


def test_type_checker_refuses_a_handler_of_another_request() -> None:
    """This test checks the ignored error: mypy reports each ignore comment that is not needed."""

    def handler(session: Session, message: m.QueueCreate) -> None: ...

    assert row(m.QueueCreate, handler) == (m.QueueCreate, handler)
    assert row(m.QueueDelete, handler) == (m.QueueDelete, handler)  # type: ignore[arg-type]
