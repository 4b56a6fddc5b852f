"""Configures the log: text for people on a terminal, or JSON for machines."""

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from qmgr_config.model import LogConfig


class _LossyStream:
    """A stream that drops output that it cannot write because the reader left or the disk is full.

    An exception here would interrupt the code that writes to the log.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Writes *text*, if possible."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flushes, if possible."""
        with suppress(OSError):
            self._stream.flush()


class _Quoted:
    """A string that the renderer shows as a Python literal."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _quoted(
    logger: object, method: str, entry: structlog.types.EventDict
) -> structlog.types.EventDict:
    """Returns *entry* with unprintable strings quoted, as a peer's name may contain any character.

    The renderer quotes only strings that contain a blank. A terminal would execute control
    characters in other strings.
    """
    del logger, method
    for key, value in entry.items():
        if isinstance(value, str) and not value.isprintable():
            entry[key] = _Quoted(value)
    return entry


def configure(log: LogConfig, stream: TextIO = sys.stderr) -> None:
    """Sends structlog's events to *stream*, as configured."""
    as_json = log.format == "json" or (log.format == "auto" and not stream.isatty())
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        # Rich's tracebacks are not used: they show values, including message bodies, and take 0.3 s
        # each.
        else structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    tail = [structlog.processors.format_exc_info if as_json else _quoted, renderer]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *tail,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[log.level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _LossyStream(stream))),
        cache_logger_on_first_use=True,
    )
