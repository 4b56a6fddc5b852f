"""Tests of how tables are found by name, and that their columns are stable."""

import json
from pathlib import Path
from typing import Any

import pytest

from qmgr_tables.tables.registry import TABLES
from tests.qmgr_tables.snapshots import rows

SCHEMAS = Path(__file__).parents[1] / "data/schemas.json"
Promised = dict[str, dict[str, Any]]


def test_each_table_is_known_by_its_name() -> None:
    assert [table.name for table in TABLES.values()] == list(TABLES)


def promised() -> Promised:
    """Returns the version, the columns and the types of each current table."""
    return {
        table.name: {
            "version": table.version,
            "columns": [[column.name, str(column.type)] for column in table.columns],
        }
        for table in TABLES.values()
    }


def broken(before: Promised, now: Promised) -> list[str]:
    """Returns the changes since *before* that need a new version."""
    faults = [f"table {name} was removed" for name in before if name not in now]
    for name, was in before.items():
        is_now = now.get(name, was)
        if is_now["version"] < was["version"]:
            faults.append(f"table {name} went back to version {is_now['version']}")
        if is_now["version"] != was["version"]:
            continue
        ours = is_now["columns"][: len(was["columns"])]
        faults += [
            f"table {name}: column {old} was changed: add columns at the end, or raise the version"
            for old, new in zip(was["columns"], ours + [None] * len(was["columns"]), strict=False)
            if old != new
        ]
    return faults


def test_columns_are_added_at_the_end_and_never_changed(pytestconfig: pytest.Config) -> None:
    """`--rewrite` accepts new columns, but not changed ones."""
    before: Promised = json.loads(SCHEMAS.read_text()) if SCHEMAS.exists() else {}
    now = promised()
    assert broken(before, now) == []
    if pytestconfig.getoption("rewrite"):
        SCHEMAS.write_text(_laid_out(now))
    assert json.loads(SCHEMAS.read_text()) == now, "new columns: run pytest --rewrite once"


def _laid_out(now: Promised) -> str:
    """Returns JSON that has one line for each column."""
    tables = []
    for name, table in now.items():
        columns = ",\n".join(f"   {json.dumps(column)}" for column in table["columns"])
        version = table["version"]
        tables.append(f' "{name}": {{"version": {version}, "columns": [\n{columns}\n ]}}')
    return "{\n" + ",\n".join(tables) + "\n}\n"


ONE = {"t": {"version": 1, "columns": [["a", "string"], ["b", "int64"]]}}


@pytest.mark.parametrize(
    ("columns", "version", "faults"),
    [
        ([["a", "string"], ["b", "int64"]], 1, 0),
        ([["a", "string"], ["b", "int64"], ["c", "int64"]], 1, 0),
        ([["a", "string"]], 1, 1),
        ([["b", "int64"], ["a", "string"]], 1, 2),
        ([["a", "string"], ["b", "int32"]], 1, 1),
        ([["a", "string"]], 2, 0),
        ([["a", "string"], ["b", "int64"]], 0, 1),
    ],
)
def test_change_is_seen(columns: list[list[str]], version: int, faults: int) -> None:
    now = {"t": {"version": version, "columns": columns}}
    assert len(broken(ONE, now)) == faults
    assert broken(ONE, {}) == ["table t was removed"]


@pytest.mark.parametrize("name", TABLES)
def test_snapshots_of_all_formats_are_read_side_by_side(
    format_1: Path, snapshot: Path, name: str
) -> None:
    old, new = rows(format_1, table=name), rows(snapshot, table=name)
    both = rows(f"{format_1},{snapshot}", table=name)
    assert sorted(map(str, both)) == sorted(map(str, old + new))
    if name == "messages":
        assert len(old) > 2_500


def test_options_hold_for_old_snapshots_too(format_1: Path, snapshot: Path) -> None:
    both = f"{format_1},{snapshot}"
    assert len(rows(both, queues="MANY", rowsPerPartition="300")) == 5_000
    assert len(rows(both, table="deadletters", since="2000-01-01")) == 2
    assert len(rows(both, table="snapshots")) == 2
