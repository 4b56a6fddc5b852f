"""Tests of the list of the processes that share a journal."""

from qmgrd.engine.members import FORGET_S, leave, members, report
from tests.qmgrd.engine.journals import Journal


def names(journal: Journal) -> list[str]:
    return [row.member for row in members(journal.admin, journal.place)]


def test_report_replaces_the_row_and_returns_all(journal: Journal) -> None:
    admin, place = journal.admin, journal.place
    report(admin, place, "b", 1, "b:1", is_active=False)
    report(admin, place, "a", 2, "a:1", is_active=False)
    rows = report(admin, place, "a", 7, "a:2,a:3", is_active=True)
    assert [row[:4] for row in rows] == [("a", True, 7, "a:2,a:3"), ("b", False, 1, "b:1")]
    assert all(0 <= row.seen_s < 60 for row in rows)


def test_member_that_leaves_is_removed(journal: Journal) -> None:
    for member in ("a", "b"):
        report(journal.admin, journal.place, member, 1, "", is_active=False)
    leave(journal.admin, journal.place, "a")
    leave(journal.admin, journal.place, "a")
    assert names(journal) == ["b"]


def test_members_of_another_journal_are_not_shown(journal: Journal) -> None:
    report(journal.admin, journal.place, "a", 1, "", is_active=False)
    other = Journal(journal.url, f"{journal.name} OTHER")
    assert names(other) == []
    leave(other.admin, other.place, "a")
    assert names(journal) == ["a"]
    other.close()


def test_member_that_was_not_seen_for_long_is_deleted(journal: Journal) -> None:
    for member in ("old", "new"):
        report(journal.admin, journal.place, member, 1, "", is_active=False)
    journal.admin.execute(
        "update qmgrd.member set seen = seen - make_interval(secs => %s) "
        "where manager = %s and member = 'old'",
        (FORGET_S, journal.place.manager),
    )
    assert names(journal) == ["new"]
    report(journal.admin, journal.place, "new", 2, "", is_active=False)
    count = journal.admin.execute(
        "select count(*) from qmgrd.member where manager = %s", (journal.place.manager,)
    ).fetchone()
    assert count == (1,), "the rows of members that never return must not remain"
