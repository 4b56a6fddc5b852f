"""The name of a client that was given none: "billing.host7.4711", its program, host and process.

A queue manager that meets a bug keeps the client that asked for it out, by this name. So no two
processes share one, and who reads the log knows whom to look at.
"""

import os
import re
import socket
import sys
from pathlib import Path

from qmgr_protocol.limits import CLIENT_NAME_MAX

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
PROGRAM_MAX, HOST_MAX = 24, 24  # characters; with a process id the name stays below 64


def client_name(program: str = "") -> str:
    """Return the name of this process, as one of *program* or of what sys.argv says."""
    host = socket.gethostname().partition(".")[0]
    parts = (program or program_of(sys.argv[:1]), PROGRAM_MAX), (host, HOST_MAX)
    words = [_UNFIT.sub("-", text)[:length] for text, length in parts]
    return ".".join([*words, str(os.getpid())])


def checked(name: str) -> str:
    """Return *name*, which a client was given.

    Raises:
        ValueError: it is not text of UTF-8, or longer than 255 characters.
    """
    try:
        str.encode(name)
    except (TypeError, UnicodeEncodeError):
        raise ValueError(f"the name {name!r} is no text of UTF-8") from None
    if len(name) > CLIENT_NAME_MAX:
        raise ValueError(f"a name of {len(name)} characters, at most {CLIENT_NAME_MAX}")
    return name


def program_of(arguments: list[str]) -> str:
    """Return what people call the program that was started with *arguments*."""
    path = Path(arguments[0]) if arguments else Path()
    if path.name == "__main__.py":  # python -m PACKAGE
        return path.parent.name
    if path.name in ("", "-", "-c"):
        return "python"
    return path.name.removesuffix(".py")
