"""Tests of the changes and effects that a turn collects."""

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.context.context import Context, Note


def test_outcome_keeps_the_order_of_messages() -> None:
    context = Context(Config(), "QM1", b"S" * 16, 1)
    context.send(1, m.Ok(1))
    context.send(2, m.Ok(2))
    context.close(1, 100, "why", 5)
    context.note("info", "event", fact=1)
    sends, closes, effects, notes = context.outcome
    assert sends == [(1, m.Ok(1)), (2, m.Ok(2))]
    assert closes == [(1, m.Goaway(100, "why", 5))]
    assert effects == []
    assert notes == [Note("info", "event", {"fact": 1})]
