from typing import Any

import pytest
from hypothesis import given

from qmgr_protocol import field
from tests.qmgr_protocol.strategies import VALUES

DEEP: Any = 1
for _ in range(1_000):
    DEEP = [DEEP]

U8_TEXT = field.mapping(2, field.text(3), field.either(field.flag, field.U8))

GOOD: list[tuple[str, field.Check, Any]] = [
    ("lowest", field.integer(1, 9), 1),
    ("highest", field.integer(1, 9), 9),
    ("among", field.among(0, 3), 3),
    ("u8", field.U8, 255),
    ("u16", field.U16, 65_535),
    ("u32", field.U32, 2**32 - 1),
    ("u64", field.U64, 2**63 - 1),
    ("text", field.text(3), "äöü"),
    ("no text", field.text(3), ""),
    ("binary", field.binary(3), b"abc"),
    ("pieces", field.binary(6, 3), b"abcabc"),
    ("no pieces", field.binary(6, 3), b""),
    ("exactly", field.exactly(2), b"ab"),
    ("array", field.array(2, field.U8), [1, 2]),
    ("no elements", field.array(2, field.U8), []),
    ("row", field.row(field.U8, field.TEXT), [1, "a"]),
    ("row of a newer peer", field.row(field.U8, field.TEXT), [1, "a", None]),
    ("map", U8_TEXT, {"a": 1, "b": True}),
    ("nil", field.optional(field.U8), None),
    ("not nil", field.optional(field.U8), 1),
    ("flag", field.flag, False),
    ("blobs", field.blobs, [b"", b"x"]),
    ("no blobs", field.blobs, []),
    ("value of the greatest depth", field.shallow(2), [{"a": 1}, [], 3]),
    ("flat value", field.shallow(0), "x"),
    ("scalar", field.SCALAR, -(2**63)),
]

BAD: list[tuple[str, field.Check, Any, str]] = [
    ("too low", field.integer(1, 9), 0, "0 is not an integer from 1 to 9"),
    ("too high", field.integer(1, 9), 10, "10 is not an integer from 1 to 9"),
    ("bool", field.integer(0, 9), True, "True is not an integer from 0 to 9"),
    ("not among", field.among(0, 1, 3), 2, "2 is not one of 0, 1, 3"),
    ("bool among", field.among(0, 1, 3), True, "True is not one of 0, 1, 3"),
    ("map among", field.among(0, 1, 3), {}, "a map of 0 is not one of 0, 1, 3"),
    ("float", field.U8, 1.0, "1.0 is not an integer from 0 to 255"),
    ("NaN", field.U8, float("nan"), "nan is not an integer from 0 to 255"),
    ("nil", field.U8, None, "None is not an integer from 0 to 255"),
    ("u64", field.U64, 2**63, f"{2**63} is not an integer from 0 to {2**63 - 1}"),
    ("long text", field.text(3), "abcd", "'abcd' is not text of at most 3 characters"),
    ("bytes as text", field.text(3), b"ab", "b'ab' is not text of at most 3 characters"),
    ("long binary", field.binary(3), b"abcd", "b'abcd' is not binary of at most 3 bytes"),
    ("text as binary", field.binary(3), "abc", "'abc' is not binary of at most 3 bytes"),
    (
        "half a piece",
        field.binary(6, 3),
        b"abcd",
        "b'abcd' is not binary of at most 6 bytes, in a multiple of 3",
    ),
    ("too short", field.exactly(2), b"a", "b'a' is not binary of 2 bytes"),
    ("no array", field.array(2, field.U8), {}, "a map of 0 is not an array of at most 2 elements"),
    (
        "long array",
        field.array(2, field.U8),
        [1, 2, 3],
        "an array of 3 is not an array of at most 2 elements",
    ),
    ("bad element", field.array(2, field.U8), [1, ""], "'' is not an integer from 0 to 255"),
    ("short row", field.row(field.U8), [], "an array of 0 is not an array of at least 1 elements"),
    ("bad column", field.row(field.U8), [[]], "an array of 0 is not an integer from 0 to 255"),
    ("no map", U8_TEXT, [], "an array of 0 is not a map of at most 2 entries"),
    ("long map", U8_TEXT, {"a": 1, "b": 2, "c": 3}, "a map of 3 is not a map of at most 2 entries"),
    ("long key", U8_TEXT, {"abcd": 1}, "as a key: 'abcd' is not text of at most 3 characters"),
    ("binary key", U8_TEXT, {b"a": 1}, "as a key: b'a' is not text of at most 3 characters"),
    ("bad entry", U8_TEXT, {"a": []}, "under 'a': an array of 0 is not an integer from 0 to 255"),
    ("number as flag", field.flag, 1, "1 is not true or false"),
    ("text among blobs", field.blobs, [b"", ""], "an array of 2 is not an array of binaries"),
    ("deep array", field.shallow(2), [[[1]]], "an array of 1 is nested more than 2 levels deep"),
    ("deep map", field.shallow(0), {}, "a map of 0 is nested more than 0 levels deep"),
    ("very deep", field.shallow(16), DEEP, "an array of 1 is nested more than 16 levels deep"),
    ("blob", field.blobs, b"", "b'' is not an array of binaries"),
]


@pytest.mark.parametrize(("name", "check", "value"), GOOD, ids=[case[0] for case in GOOD])
def test_value_passes(name: str, check: field.Check, value: Any) -> None:
    del name
    assert check(value) == ""


@pytest.mark.parametrize(("name", "check", "value", "why"), BAD, ids=[case[0] for case in BAD])
def test_value_is_refused_with_what_it_is_and_should_be(
    name: str, check: field.Check, value: Any, why: str
) -> None:
    del name
    assert check(value) == why


@pytest.mark.parametrize(
    "value",
    [DEEP, {"a": DEEP}, "x" * 10**6, b"x" * 10**6, 2**64, ["x"] * 10**6],
    ids=["deep", "deep map", "text", "binary", "number", "array"],
)
def test_refusal_is_short_whatever_the_value(value: Any) -> None:
    assert 0 < len(field.integer(0, 1)(value)) < 150


@given(VALUES)
def test_checks_never_raise(value: Any) -> None:
    for check in [case[1] for case in GOOD] + [case[1] for case in BAD]:
        assert isinstance(check(value), str)
