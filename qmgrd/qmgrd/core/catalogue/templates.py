"""Templates: attributes for all queues whose names fit a pattern.

    APP.*        a pattern: what names hold, and * for any run of it, also none

Of the patterns that a name fits, the one with the most characters beside * is its template; of
several such the first in order of the alphabet. The queue manager's own queues (SYSTEM.) have none
but of patterns that start as their names do: what is meant for all queues of people is not for
dead letters.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import PATTERN_MAX
from qmgrd.core.catalogue import system

TEMPLATES_MAX = 1_000
_PATTERN = re.compile(rf"[A-Za-z0-9._*-]{{1,{PATTERN_MAX}}}")


class Template(NamedTuple):
    """A template: the pattern and the attributes that it gives."""

    pattern: str
    attributes: dict[str, Any]

    @property
    def rank(self) -> tuple[int, str]:
        """Its place among templates that fit one name: the first is in force."""
        return -len(self.pattern.replace("*", "")), self.pattern


class Templates:
    """All templates, and which of them each queue was last held to.

    Invariant: each is among those that share what stands before its first *. ``_counts`` counts
    ``_held`` by pattern.
    """

    def __init__(self) -> None:
        self._by_pattern: dict[str, Template] = {}
        self._by_prefix: dict[str, dict[str, Template]] = {}
        self._held: dict[str, Template] = {}  # by queue
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_pattern)

    def __iter__(self) -> Iterator[Template]:
        """Yield them in order of their patterns."""
        for pattern in sorted(self._by_pattern):
            yield self._by_pattern[pattern]

    def get(self, pattern: str) -> Template | None:
        """Return the template of that very *pattern*."""
        return self._by_pattern.get(pattern)

    def of(self, name: str) -> Template | None:
        """Return the template in force for the queue *name*, or None."""
        found = [
            template
            for end in range(len(name) + 1)
            for template in self._by_prefix.get(name[:end], {}).values()
            if fits(template.pattern, name)
        ]
        return min(found, key=lambda template: template.rank, default=None)

    def hold(self, name: str) -> Template | None:
        """Hold the queue *name* to the template that is in force for it now; return that."""
        self.let_go(name)
        found = self.of(name)
        if found is not None:
            self._held[name] = found
            self._counts[found.pattern] += 1
        return found

    def let_go(self, name: str) -> None:
        """Hold the queue *name* to no template."""
        found = self._held.pop(name, None)
        if found is not None:
            self._counts[found.pattern] -= 1
            if not self._counts[found.pattern]:
                del self._counts[found.pattern]

    def held(self, name: str) -> Template | None:
        """Return the template that the queue *name* was last held to."""
        return self._held.get(name)

    def count(self, pattern: str) -> int:
        """Return how many queues are held to the template of *pattern*."""
        return self._counts[pattern]

    def add(self, template: Template) -> None:
        """Add or replace the template of a pattern."""
        self._by_pattern[template.pattern] = template
        prefix = template.pattern.partition("*")[0]
        self._by_prefix.setdefault(prefix, {})[template.pattern] = template

    def remove(self, pattern: str) -> Template:
        """Remove and return the template of *pattern*, which is there."""
        prefix = pattern.partition("*")[0]
        del self._by_prefix[prefix][pattern]
        if not self._by_prefix[prefix]:
            del self._by_prefix[prefix]
        return self._by_pattern.pop(pattern)


def check_pattern(text: str) -> None:
    """Raise NAME_INVALID where *text* is no pattern."""
    if not _PATTERN.fullmatch(text):
        raise RequestError(
            ErrorCode.NAME_INVALID,
            f"{text[:80]!r} is not a pattern: 1 to {PATTERN_MAX} of A-Z a-z 0-9 . _ - and * for "
            "any run of these",
        )


def fits(pattern: str, name: str) -> bool:
    """Return whether *name* fits *pattern*.

    Each piece between two * is taken where it first occurs: a later place leaves less for the rest.
    So this takes a time in proportion to the name, where a regular expression might try them all.
    """
    if name.startswith(system.PREFIX) and not pattern.startswith(system.PREFIX):
        return False
    head, *middle = pattern.split("*")
    if not middle:
        return pattern == name
    tail = middle.pop()
    at, end = len(head), len(name) - len(tail)
    if end < at or not (name.startswith(head) and name.endswith(tail)):
        return False
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
