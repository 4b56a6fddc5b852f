"""qmctl job, against a real daemon."""

import pytest

from qmgrd.core.job import KINDS
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


def test_listing_is_filtered_by_columns(qm: Qmctl, queue: str) -> None:
    qm("queue", "purge", queue, "-y")
    words = ["job", "ls", "--columns", "kind,state", "--where", f"queue={queue}"]
    assert qm(*words).out == "KIND\tSTATE\npurge\tdone\n"


@pytest.mark.parametrize("verb", ["show", "cancel"])
def test_job_that_is_not_there_is_not_found(verb: str, qm: Qmctl) -> None:
    ended = qm("job", verb, "12345")
    assert ended.code == 3
    assert "(JOB_UNKNOWN)" in ended.err
