"""Tests of logs: text for people on a terminal, and JSON for programs."""

import io
import json
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from qmgr_config.model import LogConfig
from qmgrd.process.log import configure

Format = Literal["auto", "console", "json"]


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def written(log: LogConfig, stream: io.StringIO) -> str:
    """Returns the log of a warning, an error with its cause, and a debug entry."""
    configure(log, stream)
    logger = structlog.get_logger()
    logger.debug("detail")
    logger.warning("odd", peer="app\n\x1b[31mfake line", count=3)
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError as error:
        logger.error("bad", exc_info=error)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("format_", "stream", "as_json"),
    [
        ("auto", io.StringIO, True),
        ("auto", Terminal, False),
        ("json", Terminal, True),
        ("console", io.StringIO, False),
    ],
)
def test_format_is_as_configured(format_: Format, stream: type[io.StringIO], as_json: bool) -> None:
    first = written(LogConfig(format=format_), stream()).splitlines()[0]
    assert first.startswith("{") == as_json
    assert "odd" in first


@pytest.mark.parametrize("format_", ["console", "json"])
def test_traceback_shows_no_values(format_: Format) -> None:
    stream = io.StringIO()
    configure(LogConfig(format=format_), stream)
    try:
        body = b"a secret of a customer"
        raise ZeroDivisionError(len(body))
    except ZeroDivisionError as error:
        structlog.get_logger().error("bad", exc_info=error)
    assert "in test_traceback_shows_no_values" in stream.getvalue()
    assert "customer" not in stream.getvalue()


def test_json_has_a_line_for_each_entry() -> None:
    odd, bad = map(json.loads, written(LogConfig(format="json"), io.StringIO()).splitlines())
    assert (odd["event"], odd["level"], odd["count"]) == ("odd", "warning", 3)
    assert odd["peer"] == "app\n\x1b[31mfake line"
    assert odd["timestamp"].endswith("Z")
    assert "ZeroDivisionError: a bug" in bad["exception"]


@pytest.mark.parametrize(
    ("level", "events"), [("debug", 3), ("info", 2), ("warning", 2), ("error", 1)]
)
def test_level_is_as_configured(
    level: Literal["debug", "info", "warning", "error"], events: int
) -> None:
    lines = written(LogConfig(level=level, format="json"), io.StringIO()).splitlines()
    assert len(lines) == events


def test_log_that_cannot_be_written_raises_nothing() -> None:
    """The reader may have closed the pipe, or the disk may be full."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    assert written(LogConfig(), Full()) == ""


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_peer_cannot_write_lines_of_its_own(stream: type[io.StringIO]) -> None:
    """A newline or an escape sequence in a name is quoted."""
    text = written(LogConfig(format="console"), stream())
    assert not any(line.startswith("\x1b[31mfake") for line in text.splitlines())
    assert "app\\n" in text


@pytest.mark.parametrize("name", ["app\x1b[2J", "\x9b2J", "a\rb", "\u202eevil"])
def test_peer_cannot_control_the_terminal(name: str) -> None:
    """A name may contain an escape sequence without a space."""
    stream = io.StringIO()
    configure(LogConfig(format="console"), stream)
    structlog.get_logger().warning("connection closed", peer=name, why=f"{name} left")
    assert stream.getvalue().rstrip("\n").isprintable()
