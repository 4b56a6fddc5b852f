from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.units import parse_bytes
from qmgr_tools.cli import humanize


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (123_456_789, "117.7 MiB"),
        (64 << 30, "64 GiB"),
        (1 << 40, "1 TiB"),
        (5 << 60, "5120 PiB"),
    ],
)
def test_size_is_short(size_bytes: int, text: str) -> None:
    assert humanize.size(size_bytes) == text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (30_400, "30 s"),
        (65_000, "1 min 5 s"),
        (3_600_000, "1 h"),
        (3_660_000, "1 h 1 min"),
        (3_601_000, "1 h"),
        (100 * 3_600_000, "4 d 4 h"),
    ],
)
def test_duration_has_its_two_largest_units(time_ms: int, text: str) -> None:
    assert humanize.duration(time_ms) == text


def test_age_is_told_from_now() -> None:
    assert humanize.age(1_000_000, 6_500_000) == "5 s ago"


def test_age_of_the_present_and_of_the_future_is_now() -> None:
    assert humanize.age(1_000_000, 1_900_000) == "now"
    assert humanize.age(9_000_000, 1_000_000) == "now"


def test_time_is_rfc_3339_in_utc() -> None:
    assert humanize.rfc3339(0) == "1970-01-01T00:00:00.000000Z"
    assert humanize.rfc3339(1_795_245_000_123_456) == "2026-11-21T07:10:00.123456Z"


@given(st.integers(0, 2**63 - 1))
def test_every_time_on_the_wire_can_be_said(time_us: int) -> None:
    text = humanize.rfc3339(time_us)
    said = datetime.fromisoformat(text)
    if said.year < 9999:
        assert round(said.timestamp() * 1_000_000) // 10 == time_us // 10 or said.year > 2100


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 messages"), (1, "1 message"), (2_000, "2,000 messages")]
)
def test_messages_are_counted_in_words(count: int, text: str) -> None:
    assert humanize.messages(count) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (64 * 10**6, "64 MB"),
        (64 << 20, "64 MiB"),
        (1_234_567, "1234567 B"),
        (1 << 50, "1024 TiB"),
        (10**12, "1 TB"),
        (2_500_000, "2500 kB"),
    ],
)
def test_size_that_was_set_is_shown_as_it_was_set(size_bytes: int, text: str) -> None:
    assert humanize.exact_size(size_bytes) == text
    assert parse_bytes(text) == size_bytes


def test_number_of_messages_that_nobody_knows_is_told_so() -> None:
    """The number is unknown if the reply to a deletion was lost with the connection."""
    assert humanize.messages(2) == "2 messages"
    assert humanize.messages(None) == "an unknown number of messages"
