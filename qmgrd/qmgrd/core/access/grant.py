"""Grants: a right on the objects of one kind whose names match a pattern.

    put     queue         ORDERS.*      names with * for any run of characters
    publish topic         flights/#     a filter of topics
    show    manager                     the queue manager itself, which has no name

A pattern matches names of the queue manager's own queues (SYSTEM.) only if it begins with SYSTEM.
as well, and names with an @ only if it contains an @. So ``put queue *`` allows neither puts to
queues of other queue managers nor access to dead letters.

For topics, the filter of the grant must contain the requested topic or filter: a grant on ``a/+``
does not allow a subscription to ``a/#``.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import GRANTED_KINDS, GRANTED_RIGHTS, Kind, Right
from qmgr_protocol.topic import MANY, MARK, ONE, filter_of
from qmgrd.core.catalogue.templates import fits

PATTERN_MAX = 200
PAIRS_MAX = 1_000  # more than there are rights for all kinds
_PATTERN = re.compile(rf"[A-Za-z0-9._*:~@-]{{1,{PATTERN_MAX}}}")
_REMOTE = "@"


class Grant(NamedTuple):
    """A right on the objects of *kind* whose names match *pattern*.

    Invariant: ``pattern`` is empty exactly if ``kind`` is MANAGER.
    """

    right: Right
    kind: Kind
    pattern: str = ""

    def covers(self, name: str) -> bool:
        """Returns whether the grant is valid for the object *name* of its kind.

        For topics, *name* is a topic or a filter. ``*`` stands for all objects of another kind.
        """
        pattern = self.pattern
        if self.kind is Kind.MANAGER:
            return True
        if self.kind is Kind.TOPIC:
            return contains(tuple(pattern.split(MARK)), tuple(name.split(MARK)))
        if _REMOTE in name and _REMOTE not in pattern:
            return False
        return fits(pattern, name)

    def encode(self) -> list[str]:
        """Returns the grant as it is stored and sent."""
        return [self.right.value, self.kind.value, self.pattern]


def decode(stored: Any) -> tuple[Grant, ...]:
    """Returns the grants that :meth:`Grant.encode` returned as the items of *stored*.

    The patterns were checked when they were granted, so a start need not do that again.

    Raises:
        ValueError, TypeError, RequestError: A grant is invalid.
    """
    found = tuple([Grant(*_pair(right, kind), pattern) for right, kind, pattern in stored])
    if not all(type(grant.pattern) is str for grant in found):
        raise ValueError("a pattern is not a string")
    return found


def check(right: str, kind: str, pattern: str) -> Grant:
    """Returns the grant with these values.

    Raises:
        RequestError: VALUE_INVALID if the right or the kind cannot be granted. NAME_INVALID or
            TOPIC_INVALID if the pattern is invalid.
    """
    found = Grant(*_pair(right, kind), pattern)
    if found.kind is Kind.MANAGER:
        if pattern:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"a right on the queue manager itself has no name, but {pattern[:80]!r} is given",
            )
    elif found.kind is Kind.TOPIC:
        filter_of(pattern)
    elif not _PATTERN.fullmatch(pattern):
        raise RequestError(
            ErrorCode.NAME_INVALID,
            f"{pattern[:80]!r} is not a valid pattern: use 1 to {PATTERN_MAX} of A-Z a-z 0-9 . _ - "
            "@ : ~ and * for any run of these",
        )
    return found


@lru_cache(maxsize=PAIRS_MAX)
def _pair(right: str, kind: str) -> tuple[Right, Kind]:
    """Returns the right and the kind with these names. Cached, because a start reads many grants.

    Raises:
        RequestError: VALUE_INVALID if the right or the kind cannot be granted.
    """
    if right not in GRANTED_RIGHTS:
        raise _invalid(f"{right[:80]!r} is not a right", GRANTED_RIGHTS)
    if kind not in GRANTED_KINDS:
        raise _invalid(f"{kind[:80]!r} is not a kind of object", GRANTED_KINDS)
    allowed = GRANTED_KINDS[kind]
    if Right(right) not in allowed:
        raise _invalid(
            f"the right to {right} does not exist for kind {kind}", [x.value for x in allowed]
        )
    return Right(right), Kind(kind)


GrantTable: TypeAlias = dict[Kind, list[Grant]]  # grants by the kind of their objects


def table_of(grants: Iterable[Grant]) -> GrantTable:
    """Returns *grants* by the kind of their objects."""
    found: GrantTable = {}
    for grant in grants:
        found.setdefault(grant.kind, []).append(grant)
    return found


def _invalid(why: str, valid: Iterable[str]) -> RequestError:
    return RequestError(ErrorCode.VALUE_INVALID, f"{why}; use one of {', '.join(valid)}")


def contains(outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    """Returns whether the filter *outer* matches each topic that *inner* matches.

    A topic is a filter that matches only itself.
    """
    for at, level in enumerate(outer):
        if level == MANY:
            return True
        if at >= len(inner) or inner[at] == MANY:
            return False
        if level not in (ONE, inner[at]):
            return False
    return len(outer) == len(inner)
