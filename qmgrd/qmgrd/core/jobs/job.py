"""A job: work that may be too long for one turn.

A job does one slice per turn and survives restarts.

    running ──▶ done            all work is done
       │  ▲  ──▶ cancelled      by an operator; finished work is not undone
       ▼  │  ──▶ failed         it can never be completed
    waiting                     for room, for example: retried every second
    aside                       a bug made a slice fail twice: it waits for an operator (aside.py)

A job is a stored row with a cursor. Each slice and its new cursor are committed in one transaction.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from qmgr_protocol.errors import RequestError, name_of
from qmgrd.core.context.audit_trail import OK, AuditRecord
from qmgrd.core.layout import keys
from qmgrd.core.layout import owner as owners
from qmgrd.core.layout.value_checks import number, typed
from qmgrd.core.limits.put_rates import ENDLESS
from qmgrd.core.queue.selection import Selection

SLICE_ROWS = 500
SHOWN_IN_LIST = 200  # maximum length of a selector or message in a list, in characters
WHYS_MAX = 3  # maximum number of separate reasons why messages stayed; the rest are "other reasons"
OTHERS = "other reasons"
MOVES = ("move", "copy", "retry")
REPUBLISHES = ("republish", "republish-drop")
# The kinds of jobs that an operator may end. The others would leave rows that no other code
# removes.
CANCELLABLE = ("purge", *MOVES, *REPUBLISHES)
KINDS = (*CANCELLABLE, "drop", "sweep", "retention", "origins", "group", "watch", "retained")
# An unfinished job of these kinds would leave wrongly counted rows in the store.
NEEDED = ("drop", "sweep")
ASIDE = "aside"
_SHOWN = (
    "kind",
    "state",
    "queue",
    "target",
    "where",
    "messages_max",
    "rate",
    "retries_max",
    "examined",
    "done",
    "skipped",
    "stayed",
    "total",
    "started_us",
    "ended_us",
    "text",
    "by",
)

STATES = ("running", "waiting", ASIDE, "done", "cancelled", "failed")
_FACTS = {  # Types of the fields that only some jobs have.
    "accounts": bool,
    "holds": bool,
    "at": int,
    "first": int,
    "lane": int,
    "arrival": int,
    "interval": int,
    "subscriptions": list,
    "user": str,
}


UNLIMITED = ENDLESS, ENDLESS  # the tokens of a job whose user has no rate


class JobStep(NamedTuple):
    """The result of a slice: the next state of the job."""

    state: str = "running"
    text: str = ""
    wake_ms: int = 0  # the store clock time of the next slice; 0 means the next turn


MORE = JobStep()
DONE = JobStep("done")


def _always(name: str) -> bool:
    """Returns True: a job that no user began may put everywhere."""
    del name
    return True


class Job:
    """A single job. Invariant: all work before ``row["cursor"]`` is done."""

    def __init__(self, job_id: int, row: dict[str, Any], stored: bytes = b"") -> None:
        self.id = job_id
        self.row = row
        self.stored = stored  # the row of the job, as it is stored
        # The connection and request id to which the daemon replies when the job ends.
        self.waiting: tuple[int, int] | None = None
        # Returns whether the user who began the job may put on a queue of this name.
        self.may_put: Callable[[str], bool] = _always
        self.error: RequestError | None = None  # the error that ended the job
        self.wanted: Selection | None = None  # the compiled selector while the job runs
        # The messages and bytes that the slice may put, and those that it has put.
        self.tokens = UNLIMITED
        self.put_messages = self.put_bytes = 0
        self.paced_ms = 0.0  # the store clock time at which the job's rate allows more messages

    @property
    def user(self) -> str:
        """The user who began the job, or "" if it began without a user."""
        found: str = self.row.get("user", "")
        return found

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.row["state"] not in ("running", "waiting", ASIDE)

    @property
    def is_limited(self) -> bool:
        """Whether the slice may put only some messages, because the job or its user has a rate."""
        return bool(self.row["rate"]) or self.tokens != UNLIMITED

    @property
    def may_put_more(self) -> bool:
        """Whether the rate of the user allows a further message in this slice."""
        messages, size_bytes = self.tokens
        return self.put_messages < messages and self.put_bytes < size_bytes

    def count_put(self, size_bytes: int) -> None:
        """Counts a message that the job put on a queue."""
        self.put_messages += 1
        self.put_bytes += size_bytes

    def count(self, what: str) -> None:
        """Counts a message as ``examined``, ``done``, ``skipped`` or ``stayed``."""
        self.row[what] += 1

    def count_stayed(self, why: str) -> None:
        """Counts a message that could not leave, with the reason *why*."""
        whys = self.row["whys"]
        if why not in whys and len(whys) >= WHYS_MAX:
            why = OTHERS
        whys[why] = whys.get(why, 0) + 1
        self.count("stayed")

    def stayed_text(self) -> str:
        """Returns the reasons why messages stayed, each with their number, or "" if none stayed."""
        return "; ".join(f"{count} stayed: {why}" for why, count in self.row["whys"].items())

    def describe(self) -> dict[str, Any]:
        """Returns the row for operators."""
        shown = {"job": self.id} | {key: self.row[key] for key in _SHOWN}
        return shown | {"ended_us": self.row["ended_us"] or None}

    def describe_short(self) -> dict[str, Any]:
        """Returns the row for operators with long strings shortened, for a list of all jobs."""
        shown = self.describe()
        return shown | {key: shown[key][:SHOWN_IN_LIST] for key in ("where", "text")}


def new_row(kind: str, started_us: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of a new job of *kind*."""
    row: dict[str, Any] = {
        "kind": kind,
        "state": "running",
        "text": "",
        "cursor": b"",
        "queue": "",
        "queue_id": 0,
        "target": "",
        "where": "",
        "messages_max": 0,
        "rate": 0,
        "retries_max": 0,
        "before": 0,
        "examined": 0,
        "done": 0,
        "skipped": 0,
        "stayed": 0,
        "total": 0,
        "group": b"",
        "again": False,
        "whys": {},
        "by": "",
        "started_us": started_us,
        "ended_us": 0,
        "ended_ms": 0,
    }
    return row | facts


def record_of(job: Job) -> AuditRecord:
    """Returns the record of the audit about the end of *job*, which an operator began."""
    row = job.row
    counts = ("examined", "done", "skipped", "stayed")
    detail = {"job": job.id, "kind": row["kind"]} | {name: row[name] for name in counts}
    if row["target"]:
        detail["target"] = row["target"]
    result = OK if row["state"] == "done" else row["state"].upper()
    if job.error is not None:
        result = name_of(job.error.code)
    return AuditRecord(
        "JobEnd",
        owners.name_of(job.user),
        kind="queue",
        object=row["queue"],
        result=result,
        detail=detail,
    )


def read_row(row: Any) -> dict[str, Any]:
    """Returns the stored *row* of a job, with defaults for missing fields.

    Raises:
        KeyError, TypeError, ValueError: The row is not a valid row of a job.
    """
    typed(dict, row, "the row")
    kind = row["kind"]
    if kind not in KINDS:
        raise ValueError(f"{str(kind)[:80]!r} is not a kind of job")
    whole = new_row(kind, 0, row)
    types = {name: type(value) for name, value in new_row(kind, 0, {}).items()} | _FACTS
    for name in types.keys() & whole.keys():
        typed(types[name], whole[name], name)
        if types[name] is int:
            number(whole[name], name)
    if whole["state"] not in STATES:
        raise ValueError(f"{whole['state']!r} is not a state of a job")
    number(whole["queue_id"], "the queue id", 0, keys.QUEUE_ID_MAX)
    if kind == "sweep":
        number(row["first"], "its first message")
    if kind == "group" and len(whole["group"]) != keys.GROUP_ID_BYTES:
        raise ValueError("its group has no id")
    for why, count in whole["whys"].items():
        number(count, f"the number of messages that stayed because {why}")
    for name in whole.get("subscriptions", ()):
        typed(str, name, "the name of a subscription")
    return whole
