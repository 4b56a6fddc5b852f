"""The layout of --help: commands in sections, shared options separately, examples last.

If a docstring ends with examples, the help shows them below the options:

    Examples:
      qmctl queue ls --where 'ready>0'
"""

import re
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from qmgr_tools.cli.exit_code import UsageError
from qmgr_tools.cli.failure import exit_codes_text

REQUIRED = re.compile(r" *\[[^]]*required\]$")  # The usage line already shows this.
SHARED = (
    "connect",
    "data_dir",
    "context",
    "login_user",
    "login_file",
    "login_token",
    "output",
    "as_json",
    "help",
)
ROOT = """Put and get messages; manage the queues, links and snapshots of a queue manager.

A queue manager is a daemon, qmgrd. It stores messages in queues on disk until consumers get them.
Links carry messages between queue managers. By default, commands connect to 127.0.0.1:7470. An
option, the environment or a context can name another address: see "qmctl context --help".
"""
ROOT_EPILOG = f"""\b
Exit codes:
{exit_codes_text()}

\b
With -o json (or --json), errors are also JSON. The last line of stderr is
{{"error": {{...}}}} with code (of the protocol, or null), exit_code, what, why,
remedy. Notes are earlier lines: {{"note": "..."}}.

\b
If no daemon listens at the address, commands retry for 3 s, because it may
be starting. Set QMCTL_PATIENCE to change this time.

\b
A first session, with a daemon on this machine:
  qmgrd --name NYC --data-dir /tmp/nyc --tcp 127.0.0.1:7470 2>/tmp/nyc.log &
  qmctl status --wait 10s   # wait until the daemon is ready
  qmctl queue create ORDERS
  qmctl put ORDERS 'one ton of apples'
  qmctl browse ORDERS       # show the message, and leave it on the queue
  qmctl get ORDERS          # print the message, and remove it
  qmctl status --watch      # repeat every 2 seconds until Ctrl-C"""
# Other names for each verb of qmctl.
SYNONYMS = {
    "create": ("add", "new", "define", "make", "declare"),
    "alter": ("set", "edit", "update", "change", "modify"),
    "ls": ("list", "l"),
    "show": ("info", "describe", "inspect", "display"),
    "purge": ("clear", "empty", "drain"),
    "delete": ("rm", "remove", "del", "drop", "destroy", "forget", "discard", "unsubscribe"),
    "close": ("kill", "disconnect"),
    "pause": ("hold", "suspend"),
    "resume": ("continue", "unpause"),
    "reassign": ("handover", "release"),
    "put": ("send", "write"),
    "pub": ("publish",),
    "sub": ("subscribe", "subscription", "subscriptions"),
    "topic": ("topics",),
    "get": ("receive", "consume", "read"),
    "consume": ("tail", "follow", "listen"),
    "browse": ("peek",),
}
_EXAMPLES = "\n\nExamples:\n"


def parts(docstring: str, more_help: str = "") -> tuple[str, str | None]:
    """Returns the text above the options, and the examples below them."""
    text, mark, examples = docstring.replace("\b\nExamples:", "Examples:").partition(_EXAMPLES)
    above = f"{text}\n\n{more_help}".rstrip()
    return above, f"\b{mark[1:]}{examples}" if mark else None


def first_example(docstring: str) -> str:
    """Returns the first example of a docstring, or ""."""
    return docstring.partition(_EXAMPLES)[2].partition("\n")[0]


class HelpCommand(TyperCommand):
    """A command whose help lists the command's own options first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, the command's own options, and the options of every command."""
        arguments: list[tuple[str, str]] = []
        own: dict[str, list[tuple[str, str]]] = {"Options": []}
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                name, help_ = record
                arguments.append((name.partition(" ")[0], REQUIRED.sub("", help_)))
            else:
                section = getattr(parameter, "rich_help_panel", None) or "Options"
                known = own.setdefault(section, [])
                (shared if parameter.name in SHARED else known).append(record)
        _write(formatter, "Arguments", arguments)
        for section, rows in own.items():
            _write(formatter, section, rows)
        _write(formatter, "Options of every command", shared)


class HelpGroup(TyperGroup):
    """A group whose help lists the commands before the options."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that *args* name, or suggests other commands."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            if similar := self._synonyms(args[0]):
                error.message = f"No such command {args[0]!r}. Did you mean {', '.join(similar)}?"  # type: ignore[attr-defined]
            raise

    def _synonyms(self, word: str) -> list[str]:
        """Returns the commands of this group or its subgroups for which *word* is another name."""
        verbs = [verb for verb, others in SYNONYMS.items() if word in others] or [word]
        if here := [verb for verb in verbs if verb in self.commands]:
            return here[:1]
        groups = {name: getattr(found, "commands", {}) for name, found in self.commands.items()}
        known = [word, *verbs] if word in SYNONYMS else verbs
        return [
            f"{name} {verb}"
            for name, commands in groups.items()
            for verb in dict.fromkeys(known)
            if verb in commands
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands in their sections, then the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                section = getattr(command, "rich_help_panel", None) or "Commands"
                sections.setdefault(section, []).append((name, command.get_short_help_str(200)))
        for section, rows in sections.items():
            _write(formatter, section, rows)
        options = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        _write(formatter, "Options", [record for record in options if record is not None])


def _write(formatter: Any, title: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)
