"""Tests of the recovery after a failed turn. Work that fails twice is set aside."""

from qmgr_protocol import messages as m
from qmgrd.core.limits.work import WorkId
from qmgrd.core.turn import TurnFailed, Turns
from qmgrd.process.recovery import RECENT_MS, RECOVERIES_MAX, Recovery
from tests.qmgrd.core.harness import Manager


def recovery_of(manager: Manager) -> Recovery:
    def start() -> Turns:
        manager.crash()
        return manager.turns

    return Recovery(start, manager.now)


def failed(work: WorkId | None) -> TurnFailed:
    return TurnFailed(0, ValueError("planted"), work)


def test_work_is_set_aside_by_the_core_that_starts_after_its_second_failure() -> None:
    manager = Manager()
    recovery = recovery_of(manager)
    for count in (0, 0, 1):
        app = manager.connect()
        assert len(app.ask(m.AsideList)["items"]) == count
        assert not recovery.add(failed(WorkId("events")), 0)
        recovery.start()
    (item,) = manager.connect().ask(m.AsideList)["items"]
    assert (item["what"], item["why"]) == ("writing events", "ValueError: planted")


def test_failures_that_nothing_cures_end_the_process_if_they_are_many_at_a_time() -> None:
    recovery = recovery_of(Manager())
    assert [recovery.add(failed(None), 0) for _ in range(RECOVERIES_MAX + 1)] == [
        *[False] * RECOVERIES_MAX,
        True,
    ]
    assert not recovery.add(failed(None), RECENT_MS)


def test_puts_are_stored_one_by_one_after_a_failure() -> None:
    """Otherwise, the connection whose put fails would stay unknown."""
    manager = Manager()
    recovery = recovery_of(manager)
    assert recovery.start().broker.streams.puts.joins_from_ms == 0
    recovery.add(failed(None), 0)
    joins_from_ms = recovery.start().broker.streams.puts.joins_from_ms
    assert joins_from_ms == manager.now().ms + RECENT_MS
