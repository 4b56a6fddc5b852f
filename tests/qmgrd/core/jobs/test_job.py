"""Tests of a job, and of its row as shown to operators."""

from qmgrd.core.jobs.job import SHOWN_IN_LIST, Job, new_row


def test_description_has_no_cursor_and_no_end_before_the_end() -> None:
    job = Job(7, new_row("move", 1_000, {"queue": "Q", "target": "R", "total": 5}))
    assert job.describe() == {
        "job": 7,
        "kind": "move",
        "state": "running",
        "queue": "Q",
        "target": "R",
        "where": "",
        "messages_max": 0,
        "rate": 0,
        "retries_max": 0,
        "examined": 0,
        "done": 0,
        "skipped": 0,
        "stayed": 0,
        "total": 5,
        "started_us": 1_000,
        "ended_us": None,
        "text": "",
        "by": "",
    }
    assert not job.is_over


def test_list_has_the_beginning_of_a_long_selector() -> None:
    """1,100 jobs fit into one answer, even if their selectors are long."""
    job = Job(7, new_row("purge", 0, {"where": "x" * 4_096}))
    assert len(job.describe_short()["where"]) == SHOWN_IN_LIST
    assert len(job.describe()["where"]) == 4_096


def test_list_has_the_beginning_of_the_text() -> None:
    job = Job(7, new_row("retry", 0, {"text": "x" * 300}))
    assert len(job.describe_short()["text"]) == SHOWN_IN_LIST


def test_job_reports_a_few_reasons_with_counts() -> None:
    job = Job(7, new_row("retry", 0, {}))
    assert job.stayed_text() == ""
    for why in ("gone", "often", "gone", "large", "x", "y"):
        job.count_stayed(why)
    assert job.row["stayed"] == 6
    assert job.stayed_text() == (
        "2 stayed: gone; 1 stayed: often; 1 stayed: large; 2 stayed: other reasons"
    )


def test_messages_are_counted_one_by_one() -> None:
    job = Job(7, new_row("purge", 0, {}))
    for what in ("examined", "examined", "done"):
        job.count(what)
    assert (job.row["examined"], job.row["done"]) == (2, 1)
