"""Prepares the server of ``tests.forked``: all its forks share the imported modules."""

from contextlib import redirect_stdout
from io import StringIO

import qmgr_client.blocking
import qmgrd.main
from qmgr_tools.main import run

__all__ = ["qmgr_client", "qmgrd"]

# The first command builds the tree of commands, and imports the modules that parse options.
with redirect_stdout(StringIO()):
    assert run(["queue", "ls", "--help"]) == 0
