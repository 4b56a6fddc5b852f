"""The records of the audit that wait for the end of their turn, and the counts of repeated ones.

    change ──record──────────────────────────▶ pending ──end of the turn──▶ SYSTEM.AUDIT, log
    login, refusal, read ──count─▶ new? ──yes─▶    ▲
                                    │ no           │ once a minute
                                    └─▶ counts ────┘

1. A record of a change is stored in the same transaction as the change (returns/audit.py).
2. Anybody can cause logins and refusals. The first one has a record in its turn. Equal ones are
   counted, and have one record together a minute later. A crash loses these counts.
3. The number of different ones in a minute is limited for each user, and for all together. Above a
   limit, they are counted without the details that differ, but with the user. Refused logins have
   limits of their own, because anybody can cause them: for each address, and for all together.
4. Applications create and delete objects as well. Above a number in a minute, these changes are
   counted as in 2, so that they do not push out the changes of operators.
"""

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from qmgrd.core.layout.kv import Now

PERIOD_MS = 60_000
SUBJECTS_MAX = 500  # different subjects in a period
SUBJECTS_EACH_MAX = 50  # different subjects in a period of one user
CHANGES_EACH_MAX = 20  # records of changes in a period by one user other than an operator
# Different subjects in a period without a login. They are not part of SUBJECTS_MAX.
STRANGERS_MAX, STRANGERS_EACH_MAX = 100, 20  # in total, and at one address
TEXT_MAX = 100  # bytes of a text in a record, in UTF-8
OK = "OK"
# The priorities of records: of changes, of routine (logins, refusals and reads), and of strangers,
# who did not log in. Records of the lowest priority make room first.
CHANGE, ROUTINE, STRANGER = 5, 4, 3
WOULD_REFUSE = "WOULD_REFUSE"  # result of a request that auth.mode = "enforce" would refuse
OTHERS = "(others)"  # the object of a record that counts different subjects together


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A record of the audit: who did what, from where, with which result."""

    action: str  # the name of a request, or another word of docs/security.md
    user: str = ""  # "" without a user
    method: str = ""  # how the user proved who it is
    address: str = ""  # the host at the other end, or "unix"
    client: str = ""  # the name that the client or queue manager claims
    connection: int = 0
    kind: str = ""  # the kind of the object
    object: str = ""  # the name of the object
    result: str = OK  # OK, WOULD_REFUSE, or the name of an error code
    count: int = 1
    since_us: int = 0  # the time of the first of several, or 0
    detail: dict[str, Any] = field(default_factory=dict)
    priority: int = CHANGE  # CHANGE, ROUTINE, or STRANGER: the user is only claimed

    @property
    def is_stranger(self) -> bool:
        """Whether anybody can cause the record, because no login preceded it."""
        return self.priority == STRANGER


def shortened(text: str) -> str:
    """Returns *text* with at most TEXT_MAX bytes, without unpaired surrogates."""
    found = text[: TEXT_MAX + 1].encode("utf-8", "replace")
    if len(found) <= TEXT_MAX:
        return found.decode()
    return found[: TEXT_MAX - 3].decode("utf-8", "ignore") + "..."


# The action, user, method, address, kind, object and result of a record
Key: TypeAlias = tuple[str, str, str, str, str, str, str]


class _Repeated:
    """The equal logins, refusals or reads of a period."""

    __slots__ = ("further", "record", "since_us")

    def __init__(self, record: AuditRecord, since_us: int) -> None:
        self.record = record
        self.since_us = since_us
        self.further = 0  # how many followed the first, which has its own record


class AuditTrail:
    """The records of the open turn, and the subjects of the current period.

    Invariant: there are at most SUBJECTS_MAX + STRANGERS_MAX subjects, and two more for each user,
        action and result. ``_of_source`` has the number of subjects for each user, and for each
        address of strangers. ``_of_strangers`` is the number of subjects of all strangers.
        ``_changes`` has the number of changes for each user other than operators.
    """

    def __init__(self) -> None:
        self.is_on = False  # whether anything is recorded
        self.pending: list[AuditRecord] = []
        self.dropped = 0  # the records that were removed for newer ones, or never stored
        self.due_ms: int | None = None  # the end of the period, or None if it has no subject
        self._subjects: dict[Key, _Repeated] = {}
        self._of_source: dict[tuple[bool, str], int] = {}
        self._changes: dict[str, int] = {}
        self._of_strangers = 0

    def record(self, record: AuditRecord) -> None:
        """Adds the record of a change to this turn."""
        if self.is_on:
            self.pending.append(record)

    def record_few(self, record: AuditRecord, now: Now) -> None:
        """Adds the record of a change by a user other than an operator, or only counts it."""
        if not self.is_on:
            return
        count = self._changes[record.user] = self._changes.get(record.user, 0) + 1
        if count > CHANGES_EACH_MAX:
            self.count(record, now)
            return
        self._begin_period(now)
        self.pending.append(record)

    def count(self, record: AuditRecord, now: Now) -> None:
        """Adds the record of a login, refusal or read, or only counts it."""
        if not self.is_on:
            return
        key = own = _key(record)
        found = self._subjects.get(key)
        if found is None:
            key = self._subject(record, own)
            found = self._subjects.get(key)
        if found is not None:
            found.further += 1  # No copy is made, because there may be thousands of them.
            return
        if key is not own:
            _, user, method, address, kind, object_, _ = key
            record = replace(
                record,
                user=user,
                method=method,
                address=address,
                kind=kind,
                object=object_,
                client="",
                detail={},
            )
        record = replace(record, priority=min(record.priority, ROUTINE))
        self._subjects[key] = _Repeated(record, now.wall_us)
        source = _source(record)
        self._of_source[source] = self._of_source.get(source, 0) + 1
        self._of_strangers += record.is_stranger
        self._begin_period(now)
        self.pending.append(record)

    def _begin_period(self, now: Now) -> None:
        if self.due_ms is None:
            self.due_ms = now.ms + PERIOD_MS

    def _subject(self, record: AuditRecord, key: Key) -> Key:
        """Returns *key*, the key of a new subject, without details if there are too many."""
        if record.is_stranger:
            is_full, each_max = self._of_strangers >= STRANGERS_MAX, STRANGERS_EACH_MAX
        else:
            is_full = len(self._subjects) - self._of_strangers >= SUBJECTS_MAX
            each_max = SUBJECTS_EACH_MAX
        is_source_full = self._of_source.get(_source(record), 0) >= each_max
        if not (is_full or is_source_full):
            return key
        user = OTHERS if record.is_stranger else record.user
        address = OTHERS if is_full or not record.is_stranger else record.address
        return record.action, user, "", address, "", OTHERS, record.result

    def sum_up(self) -> None:
        """Ends the period: adds a record for each subject that occurred again."""
        for found in self._subjects.values():
            if found.further:
                self.pending.append(
                    replace(
                        found.record, count=found.further, since_us=found.since_us, connection=0
                    )
                )
        self._subjects.clear()
        self._of_source.clear()
        self._changes.clear()
        self._of_strangers = 0
        self.due_ms = None

    def drop(self, count: int) -> None:
        """Counts records that were removed for newer ones, or never stored."""
        self.dropped += count


def _source(record: AuditRecord) -> tuple[bool, str]:
    """Returns who caused *record*. A stranger can invent users, but not as many addresses."""
    return record.is_stranger, record.address if record.is_stranger else record.user


def _key(record: AuditRecord) -> Key:
    return (
        record.action,
        record.user,
        record.method,
        record.address,
        record.kind,
        record.object,
        record.result,
    )
