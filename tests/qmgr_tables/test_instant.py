"""Tests of times in options."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_tables import instant

DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("0", 0),
        ("1", 1_000_000),
        (" 1.5 ", 1_500_000),
        ("1.000001", 1_000_001),
        ("1970-01-02", DAY_US),
        ("1970-01-02T00:00:00", DAY_US),
        ("1970-01-02 00:00:00Z", DAY_US),
        ("1970-01-02T01:00:00+01:00", DAY_US),
        ("1970-01-01T00:00:00.000007", 7),
        ("253402300799", 253_402_300_799_000_000),
    ],
)
def test_time_is_iso_or_seconds(text: str, us: int) -> None:
    assert instant.parse(text) == us


@pytest.mark.parametrize("text", ["", "yesterday", "1970-13-01", "-1", "1e9", "٣", "1.1234567"])
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(
        instant.InstantInvalid, match="is not a valid time; use 2024-05-01, 2024-05-01T12"
    ):
        instant.parse(text)


def test_milliseconds_are_not_taken_for_seconds() -> None:
    with pytest.raises(instant.InstantInvalid, match="is after the year 9999; use whole seconds"):
        instant.parse("1700000000000")


@given(moment=st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])))
def test_each_moment_is_itself_again(moment: datetime) -> None:
    us = instant.parse(moment.isoformat())
    assert us == instant.micros(moment)
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us) == moment
