"""Tests of the table of message groups."""

from pathlib import Path

from qmgr_tables.tables.groups import RUNS_SHOWN_MAX, shown
from tests.qmgr_tables.office import GROUP, OTHER, ROTTEN, by
from tests.qmgr_tables.snapshots import rows


def test_group_with_a_gap_shows_what_left_and_what_is_missing(office: Path) -> None:
    group = by(rows(office, table="groups"), "group_id")[GROUP.hex()]
    assert (group["state"], group["complete"], group["last_number"]) == ("gap", False, None)
    assert (group["present"], group["left"], group["missing"]) == (2, 2, 1)
    assert (group["present_numbers"], group["left_numbers"]) == ("3, 5", "1-2")
    assert (group["next_number"], group["highest_number"]) == (3, 5)
    assert group["age_ms"] == 11_000


def test_complete_group_counts_what_waits_for_its_time(office: Path) -> None:
    group = by(rows(office, table="groups"), "group_id")[OTHER.hex()]
    assert (group["state"], group["complete"], group["last_number"]) == ("complete", True, 2)
    assert (group["present"], group["ready"], group["delayed"]) == (2, 1, 1)
    assert group["present_numbers"] == "1-2"
    assert (group["parked_number"], group["parked_code"]) == (None, None)


def test_damaged_row_has_what_is_known_without_it(office: Path) -> None:
    group = by(rows(office, table="groups"), "group_id")[ROTTEN.hex()]
    assert (group["queue"], group["present_numbers"], group["state"]) == ("GROUPS", "1", None)
    assert group["damage"].startswith("the row of group ")
    assert group["damage"].endswith(": its checksum is wrong")


def test_group_is_of_its_first_member_in_time(office: Path) -> None:
    later = rows(office, table="groups", since="2023-11-14T22:13:21Z")
    assert [row["group_id"] for row in later] == [OTHER.hex()]
    assert len(rows(office, table="groups", until="2023-11-14T22:13:21Z")) == 1


def test_runs_are_joined_and_not_too_many() -> None:
    assert shown([]) == ""
    assert shown([(1, 2), (3, 3), (5, 5)]) == "1-3, 5"
    many = shown((number, number) for number in range(0, 1_000, 2))
    assert many.endswith(f", {2 * RUNS_SHOWN_MAX - 2}, ...")
