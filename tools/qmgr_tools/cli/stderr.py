"""Writes notes and errors to stderr: as text, or as JSON with -o json.

With -o json every line of stderr is a JSON object: {"note": "..."} or {"error": {...}}. An error is
the last line. Scripts can therefore read stderr by lines, and stdout has only results.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from qmgr_tools.cli import connect_options
from qmgr_tools.cli.failure import Failure, one_line

_WORDS = (["-o", "json"], ["--output", "json"])
_ONE_WORD = ("-ojson", "-o=json", "--output=json", "--json")
_is_json: ContextVar[bool] = ContextVar("is_json", default=False)


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Returns whether the command line asks for JSON, even if the command line is invalid."""
    words = list(arguments)
    if "--" in words:
        words = words[: words.index("--")]
    return any(word in _ONE_WORD or words[at : at + 2] in _WORDS for at, word in enumerate(words))


@contextmanager
def in_json(*, wanted: bool) -> Iterator[None]:
    """Writes the notes and errors of this block as JSON if *wanted*."""
    token = _is_json.set(wanted)
    try:
        yield
    finally:
        _is_json.reset(token)


def is_json() -> bool:
    """Returns whether notes and errors are written as JSON."""
    return _is_json.get()


def note(words: str) -> None:
    """Writes a note: information that is not part of the result."""
    text = one_line(connect_options.add_to(words))
    print(json.dumps({"note": text}) if is_json() else text, file=sys.stderr)


def error_line(failure: Failure) -> str:
    """Returns *failure* as one line of JSON."""
    return json.dumps({"error": failure.as_object()})
