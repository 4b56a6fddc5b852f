import pytest

from qmgr_tools.grant import merged

GRANTS = [
    ["put", "queue", "A"],
    ["show", "manager", ""],
    ["get", "queue", "A"],
    ["get", "queue", "B"],
]


def test_rights_on_the_same_objects_share_a_row() -> None:
    assert merged.rows(GRANTS) == [
        {"rights": ["show"], "kind": "manager", "pattern": ""},
        {"rights": ["get", "put"], "kind": "queue", "pattern": "A"},
        {"rights": ["get"], "kind": "queue", "pattern": "B"},
    ]


def test_nothing_is_shown_for_no_grants(capsys: pytest.CaptureFixture[str]) -> None:
    merged.show([])
    assert capsys.readouterr().out == ""
