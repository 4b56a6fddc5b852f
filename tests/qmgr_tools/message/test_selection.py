"""Tests of the options that select messages."""

import pytest

from qmgr_protocol.record import Uid
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.message import selection
from tests.qmgr_tools.conftest import Qmctl


def test_each_way_to_select_is_passed_on() -> None:
    assert selection.chosen("", "", "", None) == {}
    assert selection.chosen("size > 1", "", "", None) == {"where": "size > 1"}
    assert selection.chosen("", "é", "", None) == {"correlation_id": "é".encode()}
    assert selection.chosen("", "", "0A" * 24, None) == {"group_id": b"\n" * 24}
    assert selection.chosen("", "", "N1", None) == {"group_id": b"N1".ljust(24, b"\0")}
    assert selection.chosen("", "", "", "QM1.7") == {"uid": Uid("QM1", 7)}


@pytest.mark.parametrize(
    "given",
    [
        ("x = 1", "c", "", None),
        ("", "c", "", "QM1.7"),
        ("", "x" * 65, "", None),
        ("", "", "00" * 24, None),
        ("", "", "xy" * 24, None),
        ("", "", "", "QM1"),
    ],
)
def test_empty_selection_is_a_usage_error(given: tuple[str, str, str, str | None]) -> None:
    with pytest.raises(Failure) as caught:
        selection.chosen(*given)
    assert caught.value.exit_code is Exit.USAGE


def test_group_becomes_a_selector_whether_it_is_text_or_digits() -> None:
    digits = b"N1".ljust(24, b"\0").hex()
    assert selection.within("a OR b", "") == "a OR b"
    for group in ("N1", digits.upper()):
        assert selection.within("", group) == f"group_id = '{digits}'"
        assert selection.within("a OR b", group) == f"group_id = '{digits}' AND (a OR b)"
    with pytest.raises(Failure):
        selection.within("", "x" * 25)


def test_uids_become_a_selector() -> None:
    assert selection.of_uids([]) == ""
    assert selection.of_uids(["QM1.7", "a.b.8"]) == "uid IN ('QM1.7', 'a.b.8')"
    with pytest.raises(Failure):
        selection.of_uids(["QM1.7' OR 'a' = 'a"])


@pytest.mark.process
@pytest.mark.parametrize("option", ["--where", "--correlation-id", "--group-id"])
def test_get_of_what_is_empty_is_not_of_all_messages(option: str, qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    ended = qm("get", queue, "--all", option, "")
    assert (ended.code, ended.out) == (2, "")
    assert option in ended.err
    assert "the value is empty; to select all messages, omit the option" in ended.err
    assert qm("queue", "show", queue, "-o", "json").json["depth"] == 1


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [
        "browse Q",
        "move Q X",
        "copy Q X",
        "events",
        "dlq ls",
        "dlq retry --all",
        "dlq export F",
        "dlq drop --all --yes",
    ],
)
def test_empty_selector_is_refused_by_each_command(words: str, qm: Qmctl) -> None:
    ended = qm(*words.split(), "--where", "")
    assert (ended.code, ended.out) == (2, "")
    assert "the value is empty" in ended.err


@pytest.mark.process
def test_nothing_given_is_all_messages(qm: Qmctl, queue: str, bad: str) -> None:
    assert len(qm("browse", bad, "-o", "json").json) == 3
    assert len(qm("dlq", "ls", "--queue", bad, "-o", "json").json) == 3
    assert qm("events").code == 0


@pytest.mark.process
@pytest.mark.parametrize("words", ["dlq show", "dlq drop", "dlq retry", "browse Q --uid"])
def test_uid_that_is_none_is_named_as_it_was_said(words: str, qm: Qmctl) -> None:
    ended = qm(*words.split(), "garbage")
    assert ended.code == 2
    assert ended.err.startswith(
        "error: invalid UID 'garbage' -- it does not have the form ORIGIN.TIMESTAMP -- "
    )
