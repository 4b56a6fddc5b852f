"""Grants as people read them: one row for all rights on the same kind and pattern."""

from collections.abc import Iterable, Sequence
from typing import Any

from qmgr_tools.cli import output

COLUMNS = (
    output.Column("rights", "RIGHT", output.listed),
    output.text("kind"),
    output.text("pattern"),
)


def rows(grants: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    """Returns a row for each kind and pattern of *grants*, in the order of kinds and patterns."""
    found: dict[tuple[str, str], list[str]] = {}
    for right, kind, pattern in grants:
        found.setdefault((kind, pattern), []).append(right)
    return [
        {"rights": sorted(rights), "kind": kind, "pattern": pattern}
        for (kind, pattern), rights in sorted(found.items())
    ]


def show(grants: Sequence[Sequence[str]]) -> None:
    """Prints *grants* as a table below other facts, or nothing if there are none."""
    if grants:
        print()
        output.table(COLUMNS, rows(grants))
