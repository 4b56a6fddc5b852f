"""Tests that an export continues only with the options with which it was created."""

from typing import Any

import pytest

from qmgr_tables.export.failure import ExportRefused
from qmgr_tables.export.sink import check_same

HEADER = {"table": "messages", "version": 1, "full": False, "options": {"states": ["ready"]}}


def test_the_same_is_fine() -> None:
    check_same("DIR", HEADER, HEADER)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"version": 2},
            "DIR: version is 2, but the existing content has 1; export to another directory",
        ),
        (
            {"options": {}},
            "DIR: states is none, but the export was created with ready; use the same",
        ),
        (
            {"options": {"states": ["damaged", "ready"]}},
            "DIR: states is damaged,ready, but the export was created with ready; use the same",
        ),
    ],
)
def test_another_thing_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ExportRefused, match=f"^{text}"):
        check_same("DIR", HEADER, HEADER | change)
