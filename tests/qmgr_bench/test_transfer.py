from collections.abc import Callable
from typing import Any

import pytest

from qmgr_bench.transfer import about_again, about_flows, about_waits
from tests.qmgr_tools.conftest import Qmctl

ROW: dict[str, Any] = {
    "batch": 50,
    "flows": [{"flows": 1_021}, {"flows": 1_001}, {"flows": 4_000}, {"flows": 1_020}],
    "waits": [{"first_ms": 2.5}, {"first_ms": 104.0}],
    "again": [{"messages": count} for count in (225, 226, 775, 1_000, 50)],
}


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (
            about_flows,
            [
                "took 1,021 flows",
                "takes 4,000 (computed",
                "takes 1,020, about as many",
                "A link saves no flows compared with batches",
            ],
        ),
        (about_waits, ["2.5 ms after it was sent", "took 104 ms"]),
        (
            about_again,
            [
                "225, or 226 if",
                "sends everything above it again: 775",
                "1,000 if",
                "at most 50 again",
            ],
        ),
    ],
)
def test_sentences_say_what_was_found(
    about: Callable[[dict[str, Any]], str], said: list[str]
) -> None:
    assert [words for words in said if words not in about(ROW)] == []


@pytest.mark.long
@pytest.mark.process
def test_explained_in_json(qmctl: Qmctl) -> None:
    ended = qmctl("bench", "transfer", "--explain", "--count", "500", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    row = ended.json
    assert (row["messages"], row["size_bytes"], row["batch"], row["rates"]) == (500, 256, 50, None)
    single, backlog, confirms, channel = row["flows"]
    assert single["messages"] == backlog["messages"] == 500
    assert 9 <= single["words"] <= 11  # The link commits once per 50 messages (B8).
    assert (confirms["flows"], channel["flows"]) == (2_000, 510)  # The numbers show behaviour B11.
    link, batched = row["waits"]
    assert link["first_ms"] < batched["first_ms"]
    one, all_, bare, *_ = row["again"]
    assert 0 < max(one["messages"], all_["messages"]) < bare["messages"]
    said = qmctl("bench", "transfer", "--help").out
    keys = [*row, *(key for part in ("flows", "waits", "again") for key in row[part][0])]
    assert [key for key in keys if key not in said] == []


@pytest.mark.process
def test_rates_in_words(qmctl: Qmctl) -> None:
    ended = qmctl("bench", "transfer", "--count", "500")
    assert (ended.code, ended.err) == (0, "")
    titles, *lines = (line.split("\t") for line in ended.out.splitlines())
    assert titles == ["SIZE", "MSG/S", "SENDER CPU US", "RECEIVER CPU US"]
    assert [line[0] for line in lines] == ["256 B", "1 KiB"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--explain", "--count", "499"], "--explain counts 500 to 4,000 messages"),
        (["--explain", "--count", "4001"], "--explain counts 500 to 4,000 messages"),
        (["--count", "0"], "invalid value for '--count'"),
        (["--size", "1025"], "is too large (1 B to 1 KiB)"),
        (
            ["--size", "512"],
            "--size needs --explain; without --explain the command measures 256 B and 1 KiB",
        ),
        (["--dir", "/nowhere"], "does not exist"),
    ],
)
def test_invalid_request_is_explained(words: list[str], error: str, qmctl: Qmctl) -> None:
    ended = qmctl("bench", "transfer", *words)
    assert (ended.code, ended.out) == (2, "")
    assert error in ended.err
    assert ended.err.count("\n") == 1
