from typing import Any

import pytest
import typer

from qmgr_protocol.limits import QUEUE_ATTRIBUTES, QUEUE_LIMITS
from qmgr_tools.cli import option
from qmgr_tools.queue.attribute import PANELS, given, option_name, options, parse, value_text


def test_each_attribute_has_its_option_and_its_section() -> None:
    found = [name for names in PANELS.values() for name in names]
    assert sorted(found) == sorted(QUEUE_ATTRIBUTES)
    for takes_default in (False, True):
        assert {taken.name for taken in options(takes_default=takes_default)} == set(found)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("depth_max", "5", 5),
        ("bytes_max", "2 MiB", 2 << 20),
        ("lease_ms", "5min", 300_000),
        ("expiry_max_ms", "0", 0),
        ("message_max_bytes", "0", 0),
        ("retry_factor", "1.5", 1.5),
        ("retry_factor", "2", 2),
        ("breaker_percent", "50%", 50),
        ("breaker_percent", "50", 50),
        ("overflow", "refuse", "refuse"),
        ("backout_queue", "", ""),
        ("backout_queue", "A@B", "A@B"),
        ("priority_default", "9", 9),
    ],
)
def test_value_is_read_as_people_write_it(name: str, text: str, value: Any) -> None:
    assert parse(name, text) == value
    assert type(parse(name, text)) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("depth_max", "9999999999999", "is too large (1 to 1,000,000,000,000)"),
        ("depth_max", "0", "is not a number of messages"),
        ("bytes_max", "1 B", "1 B is too small (1 KiB to 16 TiB)"),
        ("lease_ms", "1ms", "1 ms is too small (100 ms to 1 d)"),
        ("lease_ms", "5", "5 has no unit"),
        ("retry_factor", "0.5", "0.5 is too small (1 to 100)"),
        ("retry_factor", "nan", "'nan' is not a number"),
        ("priority_default", "1.5", "'1.5' is not a whole number"),
        ("breaker_percent", "101", "101 is too large (0 to 100)"),
        ("overflow", "drop", "'drop' is not one of refuse, discard-oldest, dead-letter-oldest"),
    ],
)
def test_invalid_value_is_reported(name: str, text: str, words: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse(name, text)
    assert words in caught.value.message


@pytest.mark.parametrize("name", QUEUE_LIMITS)
def test_number_is_written_as_it_can_be_read(name: str) -> None:
    for value in QUEUE_LIMITS[name]:
        assert parse(name, value_text(name, value)) == value


def test_option_has_no_unit() -> None:
    assert option_name("expiry_max_ms") == "--expiry-max"
    assert option_name("bytes_max") == "--bytes-max"
    assert option_name("retry_jitter_percent") == "--retry-jitter-percent"


def test_given_is_what_was_said() -> None:
    said = {"depth_max": 5, "lease_ms": option.DEFAULT, "exclusive": False, "overflow": None}
    assert given(said) == {"depth_max": 5, "lease_ms": None, "exclusive": False}
