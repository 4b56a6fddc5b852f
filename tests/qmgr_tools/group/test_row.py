import pytest

from qmgr_protocol.errors import ErrorCode
from qmgr_tools.cli import output
from qmgr_tools.group import row as group_row

ROW = {
    "group": b"N12345".ljust(24, b"\0").hex(),
    "state": "gap",
    "count": 3,
    "delayed": 1,
    "leased": 1,
    "next": 4,
    "next_is_here": False,
    "last": 9,
    "highest": 9,
    "missing": 2,
    "holder": "",
    "first_us": 1_000_000,
    "age_ms": 61_000,
    "parked_number": 0,
    "parked_code": 0,
    "closed": False,
}


def test_row_is_as_the_help_describes_it() -> None:
    row = group_row.of(ROW)
    assert (row["group"], row["group_id"]) == ("N12345", ROW["group"])
    assert row["first"] == "1970-01-01T00:00:01.000000Z"
    assert (row["parked_number"], row["parked_code"]) == (0, None)
    assert [key for key in row if key not in group_row.JSON_KEYS] == []
    assert {column.key for column in group_row.COLUMNS} == set(row)


def test_group_that_is_no_text_is_shown_in_hexadecimal() -> None:
    row = group_row.of(ROW | {"group": "ff" * 24})
    assert row["group"] == row["group_id"] == "ff" * 24


def test_parked_group_names_the_message_and_the_reason() -> None:
    parked = {"parked_number": 4, "parked_code": int(ErrorCode.MESSAGE_REJECTED)}
    row = group_row.of(ROW | parked)
    assert (row["parked_number"], row["parked_code"]) == (4, "MESSAGE_REJECTED")
    facts = group_row.facts_of(row)
    assert output.text("parked_code").cell(facts) == "MESSAGE_REJECTED"
    assert "parked_number" not in group_row.facts_of(group_row.of(ROW))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "it has a gap, number 4 of 9 is next, 4 messages on the queue, 2 numbers missing"),
        (
            {"last": None, "missing": 0, "delayed": 0, "count": 1, "state": "open"},
            "it is open, number 4 is next, 1 message on the queue",
        ),
        (
            {"next": 10, "missing": 0, "count": 0, "delayed": 0, "state": "complete"},
            "it has ended: number 9 was its last, and it has no messages",
        ),
    ],
)
def test_how_a_group_is_told_in_words(changes: dict[str, object], words: str) -> None:
    assert group_row.summary(group_row.of(ROW | changes)) == words


def test_member_has_its_time_of_put_and_what_is_left_to_it() -> None:
    member = {
        "number": 4,
        "last": False,
        "priority": 5,
        "arrival": 77,
        "state": "ready",
        "delivered": 0,
        "failed": 0,
        "put_us": 2_000_000,
    }
    shown = group_row.member(member)
    assert shown["put_time"] == "1970-01-01T00:00:02.000000Z"
    assert shown["expiry_left_ms"] is None
    assert group_row.member(member | {"expires_left_ms": 5})["expiry_left_ms"] == 5
    assert shown["client"] is None
    row = group_row.shown(shown)
    assert (row["last"], row["age"].endswith(" d ago") or " d " in row["age"]) == (None, True)
    assert group_row.shown(shown | {"last": True})["last"] is True
    assert [column.key for column in group_row.MEMBERS if column.key not in row] == []


def test_missing_numbers_are_told_as_runs() -> None:
    assert group_row.gaps_text([[3, 3], [7, 9]]) == "3, 7 to 9"
    assert group_row.gaps_text([]) == ""
