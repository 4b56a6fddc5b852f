from datetime import UTC, datetime

import pytest

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.report import Kind


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (0.001, "0.001 ms"),
        (1.5, "1.5 ms"),
        (97.24, "97.2 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (12_345, "12.3 s"),
        (59_949, "59.9 s"),
        (59_999, "1 min"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_000_000, "1 d 1 h"),
        (86_400_000 * 400, "400 d"),
        (-1.5, "-1.5 ms"),
        (-120_000, "-2 min"),
    ],
)
def test_duration(ms: float, text: str) -> None:
    assert cells.duration(ms) == text


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Kind.COUNT, 1_234_567, "1,234,567"),
        (Kind.BYTES, 512, "512 B"),
        (Kind.BYTES, 1_536, "1.5 KiB"),
        (Kind.BYTES, 3 << 40, "3 TiB"),
        (Kind.RATE, 0.002541, "0.00254/s"),
        (Kind.RATE, 12_345.6, "12,346/s"),
        (Kind.SHARE, 0.305, "30.5 %"),
        (Kind.SHARE, 1.0, "100 %"),
        (Kind.NUMBER, -2.5, "-2.5"),
        (Kind.FLAG, False, "no"),
        (Kind.FLAG, True, "yes"),
        (Kind.TEXT, "Q", "Q"),
        (Kind.TIME, datetime(2024, 5, 6, 7, 8, 9, 999_999, UTC), "2024-05-06 07:08:09"),
        (Kind.COUNT, None, ""),
        (Kind.TEXT, None, ""),
    ],
)
def test_cell(kind: Kind, value: object, text: str) -> None:
    assert cells.cell(kind, value) == text


def test_name_is_one_line_of_limited_length() -> None:
    assert cells.text("a\nb\x1b[31m\u202e") == "a\ufffdb\ufffd[31m\ufffd"
    assert cells.text("x" * 81) == "x" * 79 + "…"
    assert cells.text("x" * 80) == "x" * 80


def test_words_follow_their_number() -> None:
    assert cells.of(1, "queue") == "1 queue"
    assert cells.of(2_000, "delivery") == "2,000 deliveries"
