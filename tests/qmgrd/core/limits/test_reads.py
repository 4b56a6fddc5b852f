"""The list of read operations agrees with the table of rights, which names every operation."""

from qmgr_protocol import messages as m
from qmgrd.core.limits.reads import DROPPED, LONG, READS
from qmgrd.core.requests.rights import RIGHTS, Right


def test_every_operation_that_shows_or_browses_is_a_read() -> None:
    shown = {kind for kind, right in RIGHTS.items() if right in (Right.SHOW, Right.BROWSE)}
    assert shown == READS


def test_long_replies_are_those_of_reads() -> None:
    assert LONG < READS


def test_writing_operations_are_never_dropped() -> None:
    kept = {m.Put, m.Settle, m.UnitPut, m.UnitCommit, m.UnitBackout, m.ProducerOpen, m.Subscribe}
    assert not DROPPED & kept
    may_be = {Right.SHOW, Right.BROWSE, Right.GET, Right.CONNECT}
    assert {RIGHTS[kind] for kind in DROPPED} <= may_be
