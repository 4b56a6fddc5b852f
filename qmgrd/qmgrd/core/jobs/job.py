"""A job: work that may exceed a turn, done a slice a turn, resumed after a restart.

    running ──▶ done            all of it is
       │  ▲  ──▶ cancelled      by an operator, where it stood
       ▼  │  ──▶ failed         it can never be done
    waiting                     for room, say: tried again each second
    aside                       a slice failed twice by a bug: waits for an operator (aside.py)

A stored row with a cursor. What a slice does is durable together with its new cursor.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from qmgrd.core.layout import keys
from qmgrd.core.layout.sense import number, typed

if TYPE_CHECKING:
    from qmgrd.core.queue.selection import Selection

SLICE_ROWS = 500
SHOWN_IN_LIST = 200  # characters of a selector, and of what is told
WHYS_MAX = 3  # that a job names for what stayed
OTHERS = "other reasons"
MOVES = ("move", "copy", "retry")
REPUBLISHES = ("republish", "republish-drop")
# What an operator may end. Of the others something would be left that nothing else removes.
CANCELLABLE = ("purge", *MOVES, *REPUBLISHES)
KINDS = (*CANCELLABLE, "drop", "sweep", "retention", "origins", "group", "watch", "retained")
NEEDED = ("drop", "sweep")  # of which something would stay in the store, and count as it should not
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
_FACTS = {  # Types of those that not every job has.
    "accounts": bool,
    "holds": bool,
    "at": int,
    "first": int,
    "lane": int,
    "arrival": int,
    "interval": int,
    "subscriptions": list,
}


class Step(NamedTuple):
    """How a job stands after a slice."""

    state: str = "running"
    text: str = ""
    wake_ms: int = 0  # store clock of its next slice; 0: the next turn


MORE = Step()
DONE = Step("done")


class Job:
    """One job. Invariant: everything before ``row["cursor"]`` is done."""

    def __init__(self, job_id: int, row: dict[str, Any], stored: bytes = b"") -> None:
        self.id = job_id
        self.row = row
        self.stored = stored  # the row as it is stored
        self.waiting: tuple[int, int] | None = None  # connection and request to answer at its end
        self.wanted: Selection | None = None  # what it selects, compiled, while it runs
        self.paced_ms = 0.0  # store clock from which on its rate allows more

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done."""
        return self.row["state"] not in ("running", "waiting", ASIDE)

    def count(self, what: str) -> None:
        """Count one message more as ``examined``, ``done``, ``skipped`` or ``stayed``."""
        self.row[what] += 1

    def count_stayed(self, why: str) -> None:
        """Count one message more that could not go, and *why*."""
        whys = self.row["whys"]
        if why not in whys and len(whys) >= WHYS_MAX:
            why = OTHERS
        whys[why] = whys.get(why, 0) + 1
        self.count("stayed")

    def told_stayed(self) -> str:
        """Return why messages could not go, and how many for each; nothing if all could."""
        return "; ".join(f"{count} stayed: {why}" for why, count in self.row["whys"].items())

    def describe(self) -> dict[str, Any]:
        """Return the row for people and scripts."""
        shown = {"job": self.id} | {key: self.row[key] for key in _SHOWN}
        return shown | {"ended_us": self.row["ended_us"] or None}

    def describe_short(self) -> dict[str, Any]:
        """Return the same for a list, which all jobs have to fit in."""
        shown = self.describe()
        return shown | {key: shown[key][:SHOWN_IN_LIST] for key in ("where", "text")}


def new_row(kind: str, started_us: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a job of that *kind* which begins."""
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


def read_row(row: Any) -> dict[str, Any]:
    """Returns the stored *row* of a job with defaults for the facts it lacks.

    Raises:
        KeyError, TypeError, ValueError: The row cannot be that of a job.
    """
    typed(dict, row, "the row")
    kind = row["kind"]
    if kind not in KINDS:
        raise ValueError(f"no job is {str(kind)[:80]!r}")
    whole = new_row(kind, 0, row)
    types = {name: type(value) for name, value in new_row(kind, 0, {}).items()} | _FACTS
    for name in types.keys() & whole.keys():
        typed(types[name], whole[name], name)
        if types[name] is int:
            number(whole[name], name)
    if whole["state"] not in STATES:
        raise ValueError(f"no job is {whole['state']!r}")
    number(whole["queue_id"], "the queue id", 0, keys.QUEUE_ID_MAX)
    if kind == "sweep":
        number(row["first"], "its first message")
    if kind == "group" and len(whole["group"]) != keys.GROUP_ID_BYTES:
        raise ValueError("its group has no id")
    for why, count in whole["whys"].items():
        number(count, f"how many stayed as {why}")
    for name in whole.get("subscriptions", ()):
        typed(str, name, "the name of a subscription")
    return whole
