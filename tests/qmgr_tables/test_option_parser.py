"""Tests of options: their names in any case, their checks, and their errors in one line."""

import pytest

from qmgr_tables.option_parser import parse
from qmgr_tables.options import OptionInvalid, Options

PATH = {"path": "/snap"}


def refusal(**given: str) -> str:
    with pytest.raises(OptionInvalid) as refused:
        parse({**PATH, **given})
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_defaults() -> None:
    assert parse(PATH) == Options(("/snap",))


def test_all_options_in_any_case() -> None:
    found = parse(
        {
            "PATH": "/snap",
            "queues": "A, B,,",
            "QUEUESPATTERN": "F.*",
            "includepayload": "FALSE",
            "MaxBodyBytes": "0",
            "rowsPerPartition": " 7 ",
            "minPartitions": "3",
            "verify": "false",
            "States": "Delayed, damaged,",
            "Since": "0",
            "UNTIL": "1970-01-02",
            "onDamaged": "SKIP",
        }
    )
    assert found == Options(
        ("/snap",),
        frozenset("AB"),
        "F.*",
        False,
        0,
        7,
        3,
        False,
        frozenset(["delayed", "damaged"]),
        "messages",
        0,
        86_400_000_000,
        True,
    )


def test_state_that_no_message_has_is_named() -> None:
    assert refusal(states="ready,delaid") == (
        "option states: 'delaid' is not a valid state; did you mean delayed?"
    )
    assert refusal(states="?").endswith(
        "; the states are ready, delayed, transmission, damaged, parked, publication"
    )


def test_list_of_paths_comes_as_json() -> None:
    assert parse({"paths": '["/a", "/b,c"]'}).paths == ("/a", "/b,c")
    assert parse({"path": "/a", "paths": '["/b"]'}).paths == ("/a", "/b")


@pytest.mark.parametrize("given", [{}, {"path": "  "}, {"paths": "[]"}])
def test_path_is_required(given: dict[str, str]) -> None:
    with pytest.raises(OptionInvalid, match="option path is missing; name a snapshot"):
        parse(given)


def test_unknown_option_is_named_with_the_one_that_was_meant() -> None:
    assert refusal(includePayloads="true") == (
        "option 'includePayloads' is unknown; did you mean includePayload?"
    )
    assert "the options are table, path, " in refusal(zzz="1")


@pytest.mark.parametrize("text", ["yes", "1", "", "tru e"])
def test_flag_is_true_or_false(text: str) -> None:
    assert refusal(includePayload=text) == (
        f"option includePayload: {text!r} is not a valid value; use true or false"
    )


@pytest.mark.parametrize("text", ["-1", "1.5", "1e3", "x", "", "٣", "9" * 5000, str(2**63)])
def test_number_is_a_plain_integer(text: str) -> None:
    assert (
        "is not an integer from 0 to 9223372036854775807; omit the option for no limit"
        in refusal(maxBodyBytes=text)
    )


@pytest.mark.parametrize("name", ["rowsPerPartition", "minPartitions"])
def test_nothing_is_cut_into_no_parts(name: str) -> None:
    assert f"option {name}: '0' is not an integer from 1" in refusal(**{name: "0"})


def test_pattern_must_be_one() -> None:
    text = refusal(queuesPattern="F(")
    assert text.startswith("option queuesPattern: 'F(' is not a valid regular expression: ")
    assert text.endswith("use, for example, FLIGHTS.*")


def test_time_that_is_none_is_refused() -> None:
    assert refusal(since="tomorrow").startswith(
        "option since: 'tomorrow' is not a valid time; use 2024-"
    )
    assert refusal(since="5", until="5") == ("option until: the time is not after since")


def test_what_to_do_about_damage_is_one_of_two() -> None:
    assert refusal(onDamaged="ignore") == (
        "option onDamaged: 'ignore' is not a valid value; use fail or skip"
    )


def test_table_refuses_what_it_cannot_hold_rows_against() -> None:
    assert refusal(table="links", queues="Q") == (
        "option queues: table links does not support this option; omit it, or use WHERE"
    )
    assert "table queues does not support this option; it supports queues, queuesPattern; " in (
        refusal(table="queues", since="1")
    )
    assert (
        refusal(table="quues") == "option table: 'quues' is not a valid table; did you mean queues?"
    )
