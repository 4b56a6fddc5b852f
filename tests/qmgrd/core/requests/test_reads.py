"""Tests of requests that only read."""

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import Right
from qmgr_protocol.operation import Growth
from qmgrd.core.requests.reads import DROPPED, LONG, READS, SELECTING
from qmgrd.core.requests.rights import NEEDS


def test_reads_are_the_requests_that_are_declared_as_queries() -> None:
    """A query adds no rows, is dropped when its connection ends, and is answered with Ok."""
    for kind in READS:
        (traits,) = [found.request for found in OPERATIONS.values() if found.kind is kind]
        assert traits is not None
        assert (traits.growth, traits.is_dropped) == (Growth.NOTHING, True)


def test_long_replies_are_those_of_reads() -> None:
    assert LONG < READS


def test_writing_operations_are_never_dropped() -> None:
    kept = {m.Put, m.Settle, m.UnitPut, m.UnitCommit, m.UnitBackout, m.ProducerOpen, m.Subscribe}
    assert not DROPPED & kept
    may_be = {Right.SHOW, Right.BROWSE, Right.GET, Right.CONNECT, Right.HISTORY}
    may_be |= {Right.ADMIN}  # rules and tests of logins
    needed = {need.right for kind in DROPPED for need in NEEDS[kind] if not need.when}
    assert needed <= may_be


def test_requests_with_a_selector_are_those_that_declare_one() -> None:
    declared = {found.kind for found in OPERATIONS.values() if "where" in found.kind._fields}
    assert set(SELECTING) == declared
    assert len(declared) == 8
