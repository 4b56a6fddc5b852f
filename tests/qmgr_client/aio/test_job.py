"""Tests of waiting for the end of a job."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from qmgr_client.aio.job import ended
from qmgr_client.rows import JobRow
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError


def row(state: str) -> JobRow:
    return cast(JobRow, {"job": 7, "state": state})


@pytest.mark.parametrize(
    "states",
    [
        ["done"],
        ["running", "done"],
        ["running", "waiting", "running", "failed"],
        ["running", "cancelled"],
        ["waiting", "aside"],
    ],
)
async def test_job_is_asked_for_until_it_is_over(states: Sequence[str]) -> None:
    answers = iter(states[1:])

    async def ask(kind: type[Any], job: int) -> JobRow:
        assert (kind, job) == (m.JobShow, 7)
        return row(next(answers))

    assert await ended(ask, row(states[0])) == row(states[-1])
    assert list(answers) == []


async def test_job_that_is_forgotten_raises() -> None:
    async def ask(kind: type[Any], job: int) -> JobRow:
        raise RequestError(ErrorCode.JOB_UNKNOWN, "there is no job 7")

    with pytest.raises(RequestError, match="no job 7"):
        await ended(ask, row("running"))
