import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.engine.fence import read_fence
from qmgrd.engine.members import MemberRow, report
from qmgrd.engine.schema import open_place
from qmgrd.engine.server import connect
from qmgrd.member.next import chosen, name_next

ACTIVE = MemberRow("nyc1", True, 90, "nyc1:7470", 0.1)
BEHIND = MemberRow("nyc2", False, 70, "nyc2:7470", 0.2)
BEST = MemberRow("nyc3", False, 80, "nyc3:7470", 1.9)
AWAY = MemberRow("nyc4", True, 100, "nyc4:7470", 11.0)


def test_standby_with_the_most_records_is_chosen() -> None:
    assert chosen([ACTIVE, BEHIND, BEST, AWAY], "nyc1", "") == BEST
    assert chosen([ACTIVE, BEHIND, BEST, AWAY], "nyc1", "nyc2") == BEHIND


@pytest.mark.parametrize(
    ("rows", "wanted", "words"),
    [
        ([ACTIVE, BEHIND], "nyc1", "member nyc1 is active already"),
        ([ACTIVE, BEHIND], "nyc9", "member nyc9 is unknown; the other members: nyc2"),
        ([ACTIVE], "nyc9", "member nyc9 is unknown; the other members: none"),
        ([ACTIVE, AWAY], "nyc4", "member nyc4 was not seen for 11 s; check that it runs"),
        ([ACTIVE, AWAY], "", r"no other member was seen for 10 s \(nyc4\); start one"),
        ([ACTIVE], "", "no other member was seen for 10 s; start one with the same journal.url"),
    ],
)
def test_other_members_are_refused(rows: list[MemberRow], wanted: str, words: str) -> None:
    with pytest.raises(RequestError, match=words) as refused:
        chosen(rows, "nyc1", wanted)
    assert refused.value.code == ErrorCode.NO_STANDBY


def test_next_member_is_named_in_the_journal(journal_url: str) -> None:
    with connect(journal_url, "test") as connection:
        place = open_place(connection, "NYC")
        for name, is_active in (("nyc1", True), ("nyc2", False)):
            report(connection, place, name, 7, f"{name}:1,{name}:2", is_active=is_active)
        found = name_next(journal_url, place, "nyc1", "")
        assert found == {"member": "nyc2", "addresses": ["nyc2:1", "nyc2:2"]}
        assert read_fence(connection, place).wanted == "nyc2"
        with pytest.raises(RequestError):
            name_next(journal_url, place, "nyc1", "nyc1")
    with pytest.raises(RequestError) as refused:
        name_next("postgresql://127.0.0.1:1/x", place, "nyc1", "")
    assert refused.value.code == ErrorCode.JOURNAL_AWAY
