"""How a command ends: with an exit code; where it failed, with why on stderr."""

import os
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches

import typer

from qmgr_tools.cli import notice
from qmgr_tools.cli.failure import Exit, Failure, usage

WIDTH = 80  # of a terminal that does not tell
QUOTE = "'"
PLAIN: tuple[
    tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...
] = (  # words for what some Typers say
    (re.compile(r"Input should be a valid (integer|number).*"), "it is no number"),
    (re.compile(r"Input should be less than or equal to "), "at most "),
    (re.compile(r"Input should be greater than or equal to "), "at least "),
    (re.compile(r"Value error, "), ""),
    (
        re.compile(r": (--?[\w-]+) \(Possible options: (.*)\)"),
        lambda m: f": {m[1]}; did you mean {get_close_matches(m[1], m[2].split(', '), 1, 0)[0]}?",
    ),
    (re.compile(r"\. Did you mean (.*)\?"), lambda m: f"; did you mean {m[1].replace(QUOTE, '')}?"),
)
# Typer and Click differ in where they keep it.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def code_of(run: Callable[[], object]) -> int:
    """Call *run*, which may return an exit code; say what went wrong, and return the code."""
    try:
        code = run()
        sys.stdout.flush()
        return code if isinstance(code, int) else Exit.OK
    except Failure as failure:
        return _fail(failure)
    except UsageError as error:
        return _misused(error)
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # Who reads has gone, as in `qmctl queue ls | head -1`.
        return Exit.FAILED
    except OSError as error:
        if error.filename is not None:
            raise  # Not of the output, but a bug.
        _drop_output()
        return _fail(Failure(Exit.FAILED, "cannot write the output", error.strerror or str(error)))


def _drop_output() -> None:
    """Have nothing flushed at exit: that would fail again, and end with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(failure: Failure) -> int:
    if notice.is_json():
        print(notice.error_line(failure), file=sys.stderr)
    elif sys.stderr.isatty():
        print(failure.paragraphs(_width()), file=sys.stderr)
    else:
        print(f"error: {failure}", file=sys.stderr)
    return failure.exit_code


def _width() -> int:
    """Return how wide the terminal is on which errors are shown."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def _misused(error: BaseException) -> int:
    """Say how a command is used. Bare groups of commands show their help."""
    text, context = error.format_message(), error.ctx  # type: ignore[attr-defined]
    if text.startswith("Usage:") and not notice.is_json():
        print(text, file=sys.stderr)
        return Exit.USAGE
    what = text[:1].lower() + text[1:].rstrip(".")
    what = "no command is given" if text.startswith("Usage:") else what
    for pattern, words in PLAIN:
        what = pattern.sub(words, what)
    path = context.command_path if context else "qmctl"
    why = " ".join(context.get_usage().split()) if context else ""
    remedy = f"see: {path} --help"
    if path == "qmctl put" and "extra argument" in what:
        remedy = "quote a message that has spaces: 'two words'"
    return _fail(usage(what, why[:1].lower() + why[1:], remedy))
