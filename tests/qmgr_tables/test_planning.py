"""Tests of how a query is planned: finding, verifying, skipping and distributing snapshots."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from qmgr_tables.filters import Filters
from qmgr_tables.option_parser import parse
from qmgr_tables.options import OptionInvalid, Options
from qmgr_tables.partition import Run, Share
from qmgr_tables.planning import BUNDLES_MIN, bundles, find, plan
from qmgr_tables.tables.registry import TABLES
from qmgrd.snapshot.finder import DATA, FILE, SnapshotUnreadable, StoredSnapshot
from tests.qmgr_tables.snapshots import batches, reader_of, rows


def options(*paths: Path | str, **more: Any) -> Options:
    return Options(tuple(map(str, paths)), **more)


@pytest.fixture
def broken(office: Path, tmp_path: Path) -> Path:
    """A snapshot with damaged data."""
    copy = shutil.copytree(office, tmp_path / "broken")
    with (copy / DATA).open("r+b") as file:
        file.seek(5_000)
        file.write(b"\xff\xee")
    return copy


def test_damaged_or_missing_snapshot_is_named_and_fatal(office: Path, broken: Path) -> None:
    with pytest.raises(SnapshotUnreadable, match=f"^{broken}/data.mdb: damaged: its checksum"):
        find(options(office, broken))
    with pytest.raises(SnapshotUnreadable, match=r"^/none: not found"):
        find(options(office, "/none"))


def test_or_it_is_left_out_with_a_warning(
    office: Path, broken: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (broken.parent / "newer").mkdir()
    (broken.parent / "newer" / FILE).write_text('{"format": 99}')
    found = find(options(office, broken.parent, "/none", skip_damaged=True))
    assert [snapshot.directory for snapshot in found.snapshots] == [str(office)]
    assert [one.directory for one in found.skipped] == [
        "/none",
        str(broken),
        str(broken.parent / "newer"),
    ]
    assert len(caplog.messages) == 3
    assert caplog.messages[1].startswith(f"qmgr: skipped snapshot (onDamaged=skip): {broken}/")
    assert all("\n" not in message for message in caplog.messages)


def test_nothing_that_is_left_is_an_error_all_the_same(broken: Path) -> None:
    with pytest.raises(SnapshotUnreadable, match="all 2 snapshots were skipped; the first: /n"):
        find(options(broken, "/none", skip_damaged=True))


def test_what_rots_after_the_plan_is_an_error_or_left_out(
    office: Path, snapshot: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for skip in ("fail", "skip"):
        copy = shutil.copytree(office, tmp_path / skip)
        made = reader_of(f"{snapshot},{copy}", table="queues", onDamaged=skip)
        partitions = made.partitions()
        shutil.rmtree(copy)
        if skip == "fail":
            with pytest.raises(SnapshotUnreadable, match=str(copy)):
                batches(made, partitions)
        else:
            found = [row for batch in batches(made, partitions) for row in batch.to_pylist()]
            assert {row["queue_manager"] for row in found} == {"QM1"}
            assert str(copy) in caplog.text


def test_unverified_snapshot_is_not_looked_at(broken: Path) -> None:
    assert len(find(options(broken, verify=False)).snapshots) == 1


def test_only_snapshots_and_queues_that_are_asked_for_are_planned(
    office: Path, snapshot: Path
) -> None:
    asked = options(office, snapshot, filters=Filters(managers=frozenset(["QM1"])))
    (bundle,) = plan(TABLES["messages"], asked)
    assert {share.snapshot.queue_manager for share in bundle} == {"QM1"}
    asked = options(office, snapshot, filters=Filters(queues=frozenset(["UIDS"])))
    (bundle,) = plan(TABLES["messages"], asked)
    assert {run.queue for share in bundle for run in share.runs} == {"UIDS"}
    asked = options(office, filters=Filters(snapshots=frozenset()))
    assert plan(TABLES["queues"], asked) == []


def test_queue_that_only_a_snapshot_has_that_is_not_asked_for_is_no_mistake(
    office: Path, snapshot: Path
) -> None:
    only = Filters(managers=frozenset(["QM1"]))
    asked = options(office, snapshot, queues=frozenset(["UIDS"]), filters=only)
    assert all(plan(table, asked) == [] for table in TABLES.values() if "queues" in table.takes)


@pytest.mark.parametrize(
    "name",
    [name for name, table in TABLES.items() if "queues" in table.takes and not table.is_past],
)
def test_queue_that_no_snapshot_has_is_named(office: Path, name: str) -> None:
    with pytest.raises(OptionInvalid, match=r"queue UIDZ not found in .*; did you mean UIDS\?"):
        rows(office, table=name, queues="UIDZ")


def test_arrivals_that_are_not_asked_for_are_not_read(snapshot: Path) -> None:
    asked = options(snapshot, queues=frozenset(["MANY"])).filters
    asked = asked.with_bounds("arrival", 100, 200)
    (bundle,) = plan(
        TABLES["messages"], options(snapshot, queues=frozenset(["MANY"]), filters=asked)
    )
    assert [(run.first, run.stop) for share in bundle for run in share.runs] == [(100, 200)]
    none = asked.with_bounds("arrival", 300, None)
    assert plan(TABLES["messages"], options(snapshot, filters=none)) == []


def share(rows: int) -> Share:
    shot = StoredSnapshot("/s", "s", "QM1", 1, 1, "", ())
    return Share(shot, (Run("Q", 1, "local", 0, 4, 1, 1 + rows),))


def test_small_shares_are_put_together_and_large_ones_are_not() -> None:
    few = [share(10)] * 5
    assert [len(bundle) for bundle in bundles(few, options())] == [1] * 5
    many = list(bundles([share(10)] * 200, options()))
    assert (len(many), len(many[0])) == (16, 13)
    assert sum(map(len, many)) == 200
    large = [share(200_000)] * 40
    assert [len(bundle) for bundle in bundles(large, options())] == [1] * 40
    assert len(list(bundles([share(10)] * 200, options(min_partitions=100)))) == 100
    assert list(bundles([], options())) == []
    assert BUNDLES_MIN == 16


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_read_over_options_of_all_kinds(office: Path, name: str) -> None:
    """Every table accepts the options that only control how it is read."""
    how = {
        "rowsPerPartition": "10",
        "minPartitions": "3",
        "includePayload": "false",
        "maxBodyBytes": "5",
        "verify": "false",
        "onDamaged": "skip",
    }
    assert parse({"path": str(office), "table": name, **how}).table == name
    assert len(rows(office, None, table=name, **how)) == len(rows(office, table=name))
