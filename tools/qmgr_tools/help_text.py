"""How --help looks: commands in sections, examples last, the shared options apart.

A docstring may end with examples, which stand below the options then:

    Examples:
      qmctl queue ls --where 'ready>0'
"""

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

SHARED = ("connect", "data_dir", "context", "output", "help")
SECTIONS = {
    "Messages": ("put", "get", "browse"),
    "Queues and links": ("queue", "link", "connection"),
    "The queue manager": ("status", "top", "explain", "snapshot", "store"),
    "This program": ("context", "bench"),
}
FIRST_SESSION = """\b
A first session, with a daemon on this machine:
  qmgrd --name NYC --data-dir /tmp/nyc --tcp 127.0.0.1:7470 2>/tmp/nyc.log &
  qmctl queue create ORDERS
  qmctl put ORDERS 'one ton of apples'
  qmctl browse ORDERS       # look, and leave it there
  qmctl get ORDERS          # print it; once it is printed it is gone
  qmctl status --watch      # how all is, every 2 seconds; Ctrl-C ends it"""
_EXAMPLES = "\n\nExamples:\n"


def parts(docstring: str, more_help: str = "") -> tuple[str, str | None]:
    """Return what stands above the options, and the examples that stand below them."""
    text, mark, examples = docstring.replace("\b\nExamples:", "Examples:").partition(_EXAMPLES)
    above = f"{text}\n\n{more_help}".rstrip()
    return above, f"\b{mark[1:]}{examples}" if mark else None


class Command(TyperCommand):
    """A command whose help has its own options first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, and those of every command."""
        arguments: list[tuple[str, str]] = []
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            else:
                (shared if parameter.name in SHARED else own).append(record)
        _write(formatter, "Arguments", arguments)
        _write(formatter, "Options", own)
        _write(formatter, "Options of every command", shared)


class Group(TyperGroup):
    """Commands, of which the help tells before it tells of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, in sections at the top, then the options."""
        rows = {
            name: (name, command.get_short_help_str(200))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        }
        if ctx.parent is None:
            for title, names in SECTIONS.items():
                _write(formatter, title, [rows.pop(name) for name in names if name in rows])
        _write(formatter, "Commands", list(rows.values()))
        options = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        _write(formatter, "Options", [record for record in options if record is not None])


def _write(formatter: Any, title: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)
