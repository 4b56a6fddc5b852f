"""Which messages a command is for, as the command line says it."""

import pytest

from qmgr_protocol.record import Uid
from qmgr_tools import selecting
from qmgr_tools.failure import Exit, Failure


def test_each_way_to_select_is_passed_on() -> None:
    assert selecting.chosen("", "", "", None) == {}
    assert selecting.chosen("size > 1", "", "", None) == {"where": "size > 1"}
    assert selecting.chosen("", "é", "", None) == {"correlation_id": "é".encode()}
    assert selecting.chosen("", "", "0A" * 24, None) == {"group_id": b"\n" * 24}
    assert selecting.chosen("", "", "", "QM1.7") == {"uid": Uid("QM1", 7)}


@pytest.mark.parametrize(
    "given",
    [("x = 1", "c", "", None), ("", "c", "", "QM1.7"), ("", "x" * 65, "", None),
     ("", "", "0A", None), ("", "", "xy" * 24, None), ("", "", "", "QM1")],
)  # fmt: skip
def test_what_selects_nothing_is_wrong_usage(given: tuple[str, str, str, str | None]) -> None:
    with pytest.raises(Failure) as caught:
        selecting.chosen(*given)
    assert caught.value.exit_code is Exit.USAGE


def test_uids_become_a_selector() -> None:
    assert selecting.of_uids([]) == ""
    assert selecting.of_uids(["QM1.7", "a.b.8"]) == "uid IN ('QM1.7', 'a.b.8')"
    with pytest.raises(Failure):
        selecting.of_uids(["QM1.7' OR 'a' = 'a"])
