"""The command ``qmctl``: asks a queue manager, and tells it what to do."""

import os
import sys

import typer

from qmgr_tools import bench, link, message, queue, snapshot, status
from qmgr_tools.command import shared_options
from qmgr_tools.failure import Exit, Failure, exit_codes_text, one_line

HELP = """Puts and gets messages, and looks after queues, links and snapshots of a queue manager."""
EPILOG = f"\b\nExit codes:\n{exit_codes_text()}"
UsageError = typer.BadParameter.__mro__[1]  # Typer and Click differ in where they keep it.

app = typer.Typer(
    help=HELP, epilog=EPILOG, no_args_is_help=True, rich_markup_mode=None,
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["--help", "-h"]},
)  # fmt: skip
