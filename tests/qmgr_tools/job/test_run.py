"""Tests of the output about a job that a command has started."""

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.job import run as job_run
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_job_that_did_not_end_well_is_a_failure(
    state: str, qm: Qmctl, daemon: Daemon, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    qm("queue", "create", f"{queue}.SHUT")
    qm("queue", "alter", f"{queue}.SHUT", "--put-inhibit")
    qm("put", queue, "x")
    with connect(daemon.unix) as client:
        row = client.admin.queue_move(queue, f"{queue}.SHUT")
        if state == "cancelled":
            client.admin.job_cancel(row["job"])
        else:
            client.admin.queue_delete(f"{queue}.SHUT")
        with pytest.raises(Failure) as caught:
            job_run.run(Call(), client, row, "moved", detach=False)
    assert caught.value.exit_code is Exit.FAILED
    assert f"job {row['job']} ended early; it moved 0 messages" in str(caught.value)
    assert capsys.readouterr().out == ""


def test_job_that_is_left_is_told_of(
    qm: Qmctl, daemon: Daemon, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    qm("queue", "create", f"{queue}.TO")
    with connect(daemon.unix) as client:
        row = client.admin.queue_move(queue, f"{queue}.TO")
        job_run.run(Call(), client, row, "moved", detach=True)
    job = row["job"]
    assert capsys.readouterr().out == f"started job {job}; see: qmctl job show {job}\n"
