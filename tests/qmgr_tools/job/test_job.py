"""Tests of qmctl job against a real daemon."""

import pytest

from qmgrd.core.jobs.job import KINDS
from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_purge_is_listed_with_what_it_did(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    qm("queue", "purge", queue, "-y")
    (row,) = qm("job", "ls", "-o", "json", "--where", f"queue={queue}").json
    assert (row["kind"], row["state"], row["done"], row["total"]) == ("purge", "done", 1, 1)
    assert qm("job", "show", str(row["job"]), "-o", "json").json == row
    assert "kind\tpurge\n" in qm("job", "show", str(row["job"])).out
    help_ = qm("job", "ls", "--help").out
    assert [key for key in (*row, *KINDS) if key not in help_] == []


def test_listing_says_what_each_number_is_of(qm: Qmctl, queue: str) -> None:
    """A selector may select fewer messages than the total. A purge counts delayed messages."""
    qm("queue", "create", f"{queue}.TO")
    qm("put", queue, "--lines", stdin=b"a\nbb\n")
    qm("put", queue, "c", "--delay", "1h")
    qm("copy", queue, f"{queue}.TO", "--where", "size = 1")
    qm("copy", queue, f"{queue}.TO", "--where", "size = 1")
    qm("queue", "purge", queue, "--yes")
    head, *lines = qm("job", "ls", "--where", f"queue={queue}").out.splitlines()
    assert head.split("\t")[5:] == ["DONE", "SKIPPED", "STAYED", "ON QUEUE", "TEXT"]
    assert [line.split("\t")[5:9] for line in lines] == [
        ["1", "0", "0", "2"],
        ["0", "1", "0", "2"],
        ["3", "0", "0", "3"],
    ]
    purge = qm("job", "ls", "-o", "json", "--where", f"queue={queue}").json[-1]
    assert purge["examined"] == purge["total"] == 3


def test_listing_is_filtered_by_columns(qm: Qmctl, queue: str) -> None:
    qm("queue", "purge", queue, "-y")
    words = ["job", "ls", "--columns", "kind,state", "--where", f"queue={queue}"]
    assert qm(*words).out == "KIND\tSTATE\npurge\tdone\n"


@pytest.mark.parametrize("verb", ["show", "cancel"])
def test_unknown_job_is_not_found(verb: str, qm: Qmctl) -> None:
    ended = qm("job", verb, "12345")
    assert ended.code == 3
    assert "(JOB_UNKNOWN)" in ended.err
