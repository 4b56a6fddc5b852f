"""Tests of events of the core."""

from typing import get_args

from qmgr_client.sansio import events


def test_each_event_that_answers_a_caller_begins_with_its_ticket() -> None:
    to_callers = {
        "PutDone",
        "SettleDone",
        "RequestDone",
        "RequestFailed",
        "Delivered",
        "ConsumerEnded",
    }
    kinds = {kind.__name__: kind for kind in get_args(events.Event)}
    assert {name for name, kind in kinds.items() if kind._fields[0] == "ticket"} == to_callers
    assert set(kinds) - to_callers == {"Ready", "ProducerLost", "Disconnected", "Failed"}
