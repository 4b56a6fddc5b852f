"""The command ``qmctl``: puts and gets messages, and looks after a queue manager."""

import os
import sys
from collections.abc import Sequence

import typer

from qmgr_tools import (
    completion,
    connection,
    context,
    explain,
    help_text,
    link,
    message,
    message_text,
    queue,
    queue_alter,
    snapshot,
    status,
    store,
    top,
)
from qmgr_tools.bench import commands as bench
from qmgr_tools.command import command, shared_options
from qmgr_tools.failure import Exit, Failure, exit_codes_text, usage

HELP = """Put and get messages; look after the queues, links and snapshots of a queue manager.

A queue manager is a daemon, qmgrd, that keeps messages in queues on disk until somebody gets them;
links carry messages from one to the next. Commands go to the one at 127.0.0.1:7470, unless an
option, the environment or a context says where else: see "qmctl context --help".
"""
WIDTH = 80  # of a terminal that does not tell
EPILOG = f"\b\nExit codes:\n{exit_codes_text()}\n\n{help_text.FIRST_SESSION}"
BENCH_EPILOG = """\b
Examples:
  qmctl bench put --seconds 5 --size 1KiB
  qmctl bench get --count 20000
  qmctl bench putget --producers 4 --inflight 64"""
# Typer and Click differ in where they keep it.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    cls=help_text.Group, help=HELP, epilog=EPILOG, no_args_is_help=True, rich_markup_mode=None,
    pretty_exceptions_enable=False, callback=shared_options,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)  # fmt: skip
command(app, "status", watched=True)(status.status)
command(app, "top")(top.top)
command(app, "put")(message.put)
command(app, "get", message_text.JSON_KEYS)(message.get)
command(app, "browse", message_text.JSON_KEYS)(message.browse)
command(queue.app, "alter")(queue_alter.alter)
app.add_typer(queue.app, name="queue")
app.add_typer(link.app, name="link")
app.add_typer(connection.app, name="connection")
command(app, "snapshot")(snapshot.snapshot)
app.add_typer(store.app, name="store")
command(app, "explain")(explain.explain)
app.add_typer(bench.app, name="bench", cls=help_text.Group, epilog=BENCH_EPILOG)
app.add_typer(context.app, name="context")


def main() -> None:
    """Run the command and exit with its code."""
    if completion.is_wanted():
        sys.exit(completion.answer(lambda: run([])))
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command that *arguments* name; return its exit code."""
    try:
        code = app(args=list(arguments), prog_name="qmctl", standalone_mode=False)
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
    if sys.stderr.isatty():
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
    if text.startswith("Usage:"):
        print(text, file=sys.stderr)
        return Exit.USAGE
    what = text[:1].lower() + text[1:].rstrip(".")
    path = context.command_path if context else "qmctl"
    why = " ".join(context.get_usage().split()) if context else ""
    remedy = f"see: {path} --help"
    if path == "qmctl put" and "extra argument" in what:
        remedy = "quote a message that has spaces: 'two words'"
    return _fail(usage(what, why[:1].lower() + why[1:], remedy))
