"""Checks that the user who began a job still has the rights to its work.

A job needs the same rights as the request that began it. They are checked before each slice, on
what the names reach at that time.
"""

from functools import partial

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import Kind, Need, Right
from qmgrd.core.access.rights import Rights, not_authorized
from qmgrd.core.jobs.job import MOVES, REPUBLISHES, Job

_NEEDS = {found.kind: found.request.needs for found in OPERATIONS.values() if found.request}
NEEDS: dict[str, tuple[Need, ...]] = {
    "purge": _NEEDS[m.QueuePurge],
    **dict.fromkeys(MOVES, _NEEDS[m.QueueMove]),
    **dict.fromkeys(REPUBLISHES, _NEEDS[m.Republish]),
}


def adopt(rights: Rights, job: Job) -> None:
    """Makes *job* check each message that it returns to its original queue."""
    if job.user:
        job.may_put = partial(_may_put, rights, job)


def _may_put(rights: Rights, job: Job, name: str) -> bool:
    needed = rights.reached(Right.PUT, Kind.DESTINATION, name)
    return rights.refusal(rights.of_owner(job.user), needed, f"job {job.id}") is None


def refusal(rights: Rights, job: Job) -> RequestError | None:
    """Returns NOT_AUTHORIZED if the user who began *job* lacks a right for it now, or None."""
    if not job.user:
        return None
    access = rights.of_owner(job.user)
    for need in NEEDS[job.row["kind"]]:
        for needed in rights.needed(need, job.row.get, ""):
            error = rights.refusal(access, needed, f"job {job.id}")
            if error is not None:  # The user has seen the object.
                return not_authorized(access, needed)
    return None


def failed_text(error: RequestError) -> str:
    """Returns the text of a job that *error* ended."""
    return f"{ErrorCode(error.code).name}: {error.text}"
