"""Templates: attributes for all queues whose names match a pattern.

    APP.*        a pattern: characters of names, and * for any number of characters, including none

If a name matches several patterns, the pattern with the most characters other than * is in force.
If several have the same number, the first in alphabetical order is in force. Patterns apply to the
queue manager's own queues (SYSTEM.) only if they also start with SYSTEM. Attributes meant for all
application queues must not change the dead-letter queue.
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
    """A template: a pattern and the attributes for the queues that match it."""

    pattern: str
    attributes: dict[str, Any]

    @property
    def rank(self) -> tuple[int, str]:
        """The rank among the templates that match one name. The lowest rank is in force."""
        return -len(self.pattern.replace("*", "")), self.pattern


class Templates:
    """All templates, and the template that was last applied to each queue.

    Invariant: templates are grouped by the part of their pattern before the first *. ``_counts``
    counts ``_held`` by pattern.
    """

    def __init__(self) -> None:
        self._by_pattern: dict[str, Template] = {}
        self._by_prefix: dict[str, dict[str, Template]] = {}
        self._held: dict[str, Template] = {}  # the applied template by queue name
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        """Returns the number of templates."""
        return len(self._by_pattern)

    def __iter__(self) -> Iterator[Template]:
        """Yields the templates in the order of their patterns."""
        for pattern in sorted(self._by_pattern):
            yield self._by_pattern[pattern]

    def get(self, pattern: str) -> Template | None:
        """Returns the template with exactly the pattern *pattern*, or None."""
        return self._by_pattern.get(pattern)

    def of(self, name: str) -> Template | None:
        """Returns the template in force for the queue *name*, or None."""
        found = [
            template
            for end in range(len(name) + 1)
            for template in self._by_prefix.get(name[:end], {}).values()
            if fits(template.pattern, name)
        ]
        return min(found, key=lambda template: template.rank, default=None)

    def apply(self, name: str) -> Template | None:
        """Applies the template in force to the queue *name* and returns it."""
        self.forget(name)
        found = self.of(name)
        if found is not None:
            self._held[name] = found
            self._counts[found.pattern] += 1
        return found

    def forget(self, name: str) -> None:
        """Forgets the template of the queue *name*."""
        found = self._held.pop(name, None)
        if found is not None:
            self._counts[found.pattern] -= 1
            if not self._counts[found.pattern]:
                del self._counts[found.pattern]

    def applied(self, name: str) -> Template | None:
        """Returns the template that was last applied to the queue *name*."""
        return self._held.get(name)

    def count(self, pattern: str) -> int:
        """Returns the number of queues to which the template of *pattern* is applied."""
        return self._counts[pattern]

    def add(self, template: Template) -> None:
        """Adds or replaces the template of a pattern."""
        self._by_pattern[template.pattern] = template
        prefix = template.pattern.partition("*")[0]
        self._by_prefix.setdefault(prefix, {})[template.pattern] = template

    def remove(self, pattern: str) -> Template:
        """Removes and returns the template of *pattern*, which must exist."""
        prefix = pattern.partition("*")[0]
        del self._by_prefix[prefix][pattern]
        if not self._by_prefix[prefix]:
            del self._by_prefix[prefix]
        return self._by_pattern.pop(pattern)


def check_pattern(text: str) -> None:
    """Raises NAME_INVALID if *text* is not a pattern."""
    if not _PATTERN.fullmatch(text):
        raise RequestError(
            ErrorCode.NAME_INVALID,
            f"{text[:80]!r} is not a valid pattern: use 1 to {PATTERN_MAX} of A-Z a-z 0-9 . _ - "
            "and * for "
            "any run of these",
        )


def fits(pattern: str, name: str) -> bool:
    """Returns whether *name* matches *pattern*.

    Each piece between two * matches at its first occurrence, because later occurrences leave less
    for the rest. Therefore, the time is proportional to the length of the name. A regular
    expression might try all positions.
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
