"""Tests that only the first few log lines about unknown peers are complete."""

from structlog.testing import capture_logs

from qmgrd.core.context.context import Note
from qmgrd.net import log_limit
from qmgrd.net.log_limit import LINES_MAX, NOTES_MAX, PERIOD_MS, LogLimit

SUBJECT = {"from": "10.6.6.6", "code": 101}


def test_first_lines_are_whole_and_the_rest_is_summed() -> None:
    limit = LogLimit(0)
    with capture_logs() as logs:
        for number in range(LINES_MAX + 990):
            limit.write("warning", "connection closed", SUBJECT, peer=str(number))
        limit.sum_up(PERIOD_MS - 1)
        assert len(logs) == LINES_MAX
        assert logs[0] == {
            "log_level": "warning",
            "event": "connection closed",
            **SUBJECT,
            "peer": "0",
        }
        limit.sum_up(PERIOD_MS)
    assert logs[-1] == {
        "log_level": "warning",
        "event": "connection closed",
        **SUBJECT,
        "more": 990,
        "in_ms": PERIOD_MS,
    }


def test_next_period_begins_with_whole_lines_and_sums_nothing_twice() -> None:
    limit = LogLimit(0)
    with capture_logs() as logs:
        for _ in range(LINES_MAX + 1):
            limit.write("warning", "closed", SUBJECT)
        limit.sum_up(PERIOD_MS)
        limit.write("warning", "closed", SUBJECT)
        limit.sum_up(2 * PERIOD_MS)
    assert len(logs) == LINES_MAX + 2
    assert "more" not in logs[-1]


def test_other_subjects_are_not_left_out() -> None:
    limit = LogLimit(0)
    with capture_logs() as logs:
        for _ in range(LINES_MAX + 1):
            limit.write("warning", "closed", SUBJECT)
        limit.write("warning", "closed", SUBJECT | {"from": "10.0.0.1"})
        limit.write("warning", "link lost", SUBJECT)
    assert len(logs) == LINES_MAX + 2


def test_limited_notes_do_not_leave_out_others() -> None:
    limit = LogLimit(0)
    with capture_logs() as logs:
        for _ in range(NOTES_MAX + 1):
            limit.write_note(Note("info", "audit", {"action": "Login"}))
        for _ in range(NOTES_MAX + 1):
            limit.write_note(Note("info", "audit", {"action": "UserCreate"}, is_limited=False))
    written = [x["action"] for x in logs]
    assert written == ["Login"] * NOTES_MAX + ["UserCreate"] * (NOTES_MAX + 1)
    assert {x["log_level"] for x in logs} == {"info"}


def test_strangers_with_many_addresses_share_a_count() -> None:
    limit = LogLimit(0)
    with capture_logs() as logs:
        for number in range(log_limit.SUBJECTS_MAX + 5_000):
            limit.write("warning", "closed", {"from": str(number)})
        limit.sum_up(PERIOD_MS)
    assert len(logs) == log_limit.SUBJECTS_MAX + LINES_MAX + 1
    assert (logs[-1]["more"], "from" in logs[-1]) == (5_000 - LINES_MAX, False)
