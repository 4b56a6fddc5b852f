"""Tests of definitions that contradict existing ones."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.definition import check_alias, check_same
from tests.qmgrd.core.harness import Client


def test_alias_of_an_alias_is_refused_from_either_end(app: Client) -> None:
    app.ask(m.QueueCreate, "A", {"alias_of": "Q"})
    known = app.manager.turns.broker.catalogue
    check_alias(known, "B", "Q")
    with pytest.raises(RequestError, match="A is itself an alias of Q"):
        check_alias(known, "B", "A")
    with pytest.raises(RequestError, match="because A is an alias of Q"):
        check_alias(known, "Q", "R")
    app.ask(m.QueueAlter, "A", {"alias_of": "P"})
    check_alias(known, "Q", "R")
    with pytest.raises(RequestError, match="because A is an alias of P"):
        check_alias(known, "P", "R")
    app.ask(m.QueueDelete, "A")
    assert not known.aliases


def test_same_definition_again_is_none_and_another_is_refused() -> None:
    row = {"kind": "local", "queue_id": 3, "depth_max": 7}
    check_same("Q", row, {"depth_max": 7})
    with pytest.raises(RequestError, match=r"exists with other attributes: .*7") as e:
        check_same("Q", row, {"depth_max": 8})
    assert e.value.code is ErrorCode.QUEUE_EXISTS
