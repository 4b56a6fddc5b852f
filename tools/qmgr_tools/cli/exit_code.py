"""Runs a command, writes errors to stderr, and returns the exit code."""

import os
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches

import typer

from qmgr_tools.cli import stderr
from qmgr_tools.cli.failure import Exit, Failure, usage

WIDTH = 80  # width of a terminal that does not report its size
QUOTE = "'"
PLAIN: tuple[
    tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...
] = (  # plain texts for the messages of some versions of Typer
    (re.compile(r"Input should be a valid (integer|number).*"), "not a number"),
    (re.compile(r"Input should be less than or equal to "), "at most "),
    (re.compile(r"Input should be greater than or equal to "), "at least "),
    (re.compile(r"Value error, "), ""),
    (
        re.compile(r": --password \(Possible options: .*--no-password.*\)"),
        ": --password; use --password-file FILE, --generate or --no-password",
    ),
    (
        re.compile(r": (--?[\w-]+) \(Possible options: (.*)\)"),
        lambda m: f": {m[1]}; did you mean {get_close_matches(m[1], m[2].split(', '), 1, 0)[0]}?",
    ),
    (re.compile(r"\. Did you mean (.*)\?"), lambda m: f"; did you mean {m[1].replace(QUOTE, '')}?"),
)
# Typer and Click define UsageError in different modules.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def code_of(run: Callable[[], object]) -> int:
    """Calls *run*, writes errors to stderr, and returns the exit code."""
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
        _drop_output()  # The reader closed the pipe, as in `qmctl queue ls | head -1`.
        return Exit.FAILED
    except OSError as error:
        if error.filename is not None:
            raise  # This is a bug: output errors have no file name.
        _drop_output()
        return _fail(Failure(Exit.FAILED, "cannot write the output", error.strerror or str(error)))


def _drop_output() -> None:
    """Discards buffered output, because a flush at exit would fail again with exit code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(failure: Failure) -> int:
    if stderr.is_json():
        print(stderr.error_line(failure), file=sys.stderr)
    elif sys.stderr.isatty():
        print(failure.paragraphs(_width()), file=sys.stderr)
    else:
        print(f"error: {failure}", file=sys.stderr)
    return failure.exit_code


def _width() -> int:
    """Returns the width of the terminal to which errors are written."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def _misused(error: BaseException) -> int:
    """Writes an error about wrong usage. A group without a command shows the group's help."""
    text, context = error.format_message(), error.ctx  # type: ignore[attr-defined]
    if text.startswith("Usage:") and not stderr.is_json():
        print(text, file=sys.stderr)
        return Exit.USAGE
    what = text[:1].lower() + text[1:].rstrip(".")
    what = "no command given" if text.startswith("Usage:") else what
    for pattern, words in PLAIN:
        what = pattern.sub(words, what)
    path = context.command_path if context else "qmctl"
    why = " ".join(context.get_usage().split()) if context else ""
    remedy = f"see: {path} --help"
    if path == "qmctl put" and "extra argument" in what:
        remedy = "if the message has spaces, quote it: 'two words'"
    return _fail(usage(what, why[:1].lower() + why[1:], remedy))
