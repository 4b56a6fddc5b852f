import pytest
import typer

from qmgr_protocol.record import TIMESTAMP_MAX, Uid
from qmgr_tools.cli import option
from qmgr_tools.cli.failure import Exit, Failure


def test_default_takes_a_value_back() -> None:
    parse = option.or_default(option.messages)
    assert parse("default") == option.DEFAULT
    assert parse("5") == option.messages(5) == 5
    with pytest.raises(
        typer.BadParameter, match=('"-5" is not a number of messages \\(1 or more\\)')
    ):
        parse("-5")


def test_size_and_times_have_units() -> None:
    assert option.size("64 MiB") == 64 << 20
    assert option.wait("500 ms") == 500
    assert option.wait("5s") == 5_000
    assert option.wait("0") == option.wait(0) == 0
    assert option.lease("1.5 s") == 1_500
    assert option.size("30") == 30
    assert option.seconds("2s") == 2.0
    assert option.seconds("250 ms") == 0.25
    assert option.seconds(5.0) == 5.0


@pytest.mark.parametrize(
    ("parse", "text", "why"),
    [
        (option.size, "much", "is not bytes"),
        (option.size, "5 parsecs", 'unknown unit "parsecs"'),
        (option.size, "-1", "-1 is negative"),
        (option.size, "99999999 TiB", "is too large"),
        (option.messages, "9" * 30, "is not a number of messages"),
        (option.seconds, "99999999999999d", r"is too long \(the limit is 7 d\)"),
        (option.wait, "-5s", "-5s is negative"),
        (option.wait, "8 d", r"8 d is too long \(the limit is 7 d\)"),
        (option.lease, "25 h", r"25 h is too long \(the limit is 1 d\)"),
        (option.wait, "%s", 'invalid duration "%s": use a number and a unit, such as 30s or 500ms'),
        (option.wait, "", 'invalid duration "": use a number and a unit, such as 30s or 500ms'),
        (option.wait, "5", "duration 5 has no unit: use a number and a unit, such as 30s or 500ms"),
        (
            option.lease,
            "-0.5",
            "duration -0.5 has no unit: use a number and a unit, such as 30s or 500ms",
        ),
        (option.lease, "30 m", 'unknown unit "m"'),
        (
            option.seconds,
            "nan",
            'invalid duration "nan": use a number and a unit, such as 30s or 500ms',
        ),
        (
            option.seconds,
            "2",
            "duration 2 has no unit: use a number and a unit, such as 30s or 500ms",
        ),
        (option.seconds, "0", "0 is too short"),
    ],
)
def test_value_that_cannot_be_is_explained(parse: object, text: str, why: str) -> None:
    assert callable(parse)
    with pytest.raises(typer.BadParameter, match=why):
        parse(text)


def test_headers_are_keys_and_values() -> None:
    assert option.headers(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}


def test_header_has_the_type_that_json_gives_it() -> None:
    said = ["i:=20", "d:=-2.5", "t:=true", "n:=null", 's:="20"', "e:=1e3", "text=:=5", "u=a:=1"]
    found = option.headers(said)
    assert found == {
        "i": 20,
        "d": -2.5,
        "t": True,
        "n": None,
        "s": "20",
        "e": 1000.0,
        "text": ":=5",
        "u": "a:=1",
    }
    assert type(found["i"]) is int
    assert option.headers([f"most:={2**63 - 1}"]) == {"most": 2**63 - 1}


@pytest.mark.parametrize(
    "said",
    [
        ["a"],
        ["=1"],
        ["a=1", "a=2"],
        ["a=1", "a:=2"],
        [":=1"],
        ["a:="],
        ["a:=red"],
        ["a:=[1]"],
        ["a:={}"],
        ["a:=NaN"],
        ["a:=-Infinity"],
        ["a:=1e999"],
        [f"a:={2**63}"],
        ["a:=" + "9" * 5_000],
        ["a:=" + "[" * 100_000],
    ],
)
def test_header_that_is_none_is_refused(said: list[str]) -> None:
    with pytest.raises(Failure, match="--header") as refusal:
        option.headers(said)
    assert refusal.value.exit_code is Exit.USAGE


def test_uid_is_cut_at_its_last_dot() -> None:
    assert option.uid("my.app.17") == Uid("my.app", 17)
    assert option.uid(f"x.{TIMESTAMP_MAX}") == Uid("x", TIMESTAMP_MAX)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x.",
        ".5",
        "x.-5",
        "x.5a",
        f"x.{TIMESTAMP_MAX + 1}",
        "o" * 65 + ".1",
        "x.٣",
        "ü.1",
        "a b.1",
        "A@B.1",
    ],
)
def test_uid_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="does not have the form") as refusal:
        option.uid(text)
    assert refusal.value.exit_code is Exit.USAGE


def test_group_is_a_text_or_digits_and_a_default_stays() -> None:
    found = b"N12345".ljust(24, b"\0")
    assert option.group("N12345") == option.group(found.hex()) == found
    assert option.group(b"") == b""
    with pytest.raises(
        typer.BadParameter,
        match=r"invalid group id .*: a text of 25 bytes exceeds the limit of 24 bytes",
    ):
        option.group("x" * 25)
