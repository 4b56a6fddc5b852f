import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.units import (
    bytes_text,
    count_text,
    ms_text,
    parse_bytes,
    parse_count,
    parse_ms,
    shown,
)

U64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("1_000", 1000),
        ("0", 0),
        ("-1", -1),
        (" 64 GiB ", 64 << 30),
        ("64GiB", 64 << 30),
        ("1.5 KiB", 1536),
        ("10 MB", 10_000_000),
        ("16 TiB", 16 << 40),
    ],
)
def test_size_is_read_in_bytes(value: object, size_bytes: int) -> None:
    assert parse_bytes(value) == size_bytes


@pytest.mark.parametrize(
    ("value", "time_ms"),
    [
        (500, 500),
        ("500 ms", 500),
        ("30 s", 30_000),
        ("0.25 s", 250),
        ("5 min", 300_000),
        ("2 h", 7_200_000),
        ("7 d", 604_800_000),
    ],
)
def test_time_is_read_in_milliseconds(value: object, time_ms: int) -> None:
    assert parse_ms(value) == time_ms


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (
            "64 gib",
            '"64 gib" has the unknown unit "gib" (use B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)',
        ),
        ("30 s", '"30 s" has the unknown unit "s"'),
        ("0.5 B", '"0.5 B" is not a whole number of the base unit'),
        ("lots", '"lots" is not bytes, as in 4096 or "4 KiB"'),
        ("", '"" is not bytes'),
        ("1e9", '"1e9" is not bytes'),
        ("9" * 33, "is not bytes"),
        ("٤ KiB", "is not bytes"),
        (1.0, "1.0 is not bytes"),
        (True, "true is not bytes"),
        (None, "null is not bytes"),
        ([1], "[1] is not bytes"),
    ],
)
def test_invalid_size_is_refused_with_the_reason(value: object, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        parse_bytes(value)


def test_a_count_takes_no_unit() -> None:
    with pytest.raises(ValueError, match='has the unknown unit "k" \\(a count has no units\\)'):
        parse_count("10 k")


@given(U64)
def test_written_values_are_read_back(number: int) -> None:
    assert parse_bytes(bytes_text(number)) == number
    assert parse_ms(ms_text(number)) == number
    assert parse_count(count_text(number)) == number


def test_the_largest_exact_unit_is_written() -> None:
    assert [bytes_text(n) for n in (0, 1000, 1024, 1536, 3 << 40)] == (
        ["0 B", "1000 B", "1 KiB", "1536 B", "3 TiB"]
    )
    assert [ms_text(n) for n in (0, 1500, 60_000, 86_400_000)] == [
        "0 ms",
        "1500 ms",
        "1 min",
        "1 d",
    ]
    assert count_text(100_000) == "100_000"


@given(st.text() | st.integers() | st.lists(st.text()))
def test_a_value_is_shown_on_one_short_line(value: object) -> None:
    assert len(shown(value)) <= 60
    assert "\n" not in shown(value)


def test_a_number_too_long_for_python_is_shown_all_the_same() -> None:
    assert shown(1 << 100_000) == "a number too long to show"
