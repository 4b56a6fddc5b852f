"""Tests of work items: their names, and the number of failures of each."""

from qmgrd.core.limits.work import Failures, WorkId

DUE, JOB = WorkId("due", b"\x13\x01"), WorkId("job", 7)


def test_name_is_readable() -> None:
    assert [str(work) for work in (DUE, JOB, WorkId("link", "NYC"), WorkId("events"))] == [
        "due 1301",
        "job 7",
        "link NYC",
        "events",
    ]


def test_work_is_set_aside_at_its_second_failure() -> None:
    failures = Failures()
    assert [failures.add(work, 0) for work in (DUE, JOB, DUE, None, None, JOB)] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]


def test_failures_of_work_set_aside_do_not_end_the_process() -> None:
    failures = Failures()
    for number in range(100):
        for _ in range(2):
            failures.add(WorkId("job", number), 0)
    assert failures.since(-1) == 0


def test_incurable_failures_count_as_recent_for_a_while() -> None:
    failures = Failures()
    for now_ms in range(6):
        failures.add(None, now_ms)
    assert failures.since(2) == 3


def test_single_old_failure_is_forgotten() -> None:
    failures = Failures()
    failures.add(DUE, 0)
    for number in range(1_000):
        failures.add(WorkId("job", number), 0)
    assert not failures.add(DUE, 0)
