"""Checks that the user who began a job still has the rights to its work, and charges its rate.

A job needs the same rights as the request that began it. They are checked before each slice, on
what the names reach at that time. The messages that the job puts take tokens of its user, like the
puts of the user's connections (put_rates.py). Without tokens, the job waits.
"""

from functools import partial

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import Kind, Need, Right
from qmgrd.core.access.rights import Rights, not_authorized
from qmgrd.core.jobs.job import MOVES, REPUBLISHES, UNLIMITED, Job
from qmgrd.core.limits.put_rates import WAIT_MIN_MS

LOOK_MS = 1_000  # maximum time until a job looks for tokens again, because a limit may be raised
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


def wait_ms(rights: Rights, job: Job, now_ms: int) -> int:
    """Returns the time until *job* may put again, or 0. Limits its next slice to the tokens."""
    if not job.user or job.row["kind"] not in (*MOVES, "republish"):
        return 0
    rate = rights.of_owner(job.user).put_rate
    if not rate.is_limited:
        job.tokens = UNLIMITED
        return 0
    if missing_ms := rate.wait_ms(now_ms):
        return min(max(missing_ms, WAIT_MIN_MS), LOOK_MS)
    job.tokens = rate.tokens
    return 0


def charge(rights: Rights, job: Job) -> None:
    """Takes the tokens for the messages that a slice of *job* has put."""
    if job.put_messages:
        if job.tokens != UNLIMITED:
            rights.of_owner(job.user).put_rate.take(job.put_messages, job.put_bytes)
        job.put_messages = job.put_bytes = 0


def failed_text(error: RequestError) -> str:
    """Returns the text of a job that *error* ended."""
    return f"{ErrorCode(error.code).name}: {error.text}"
