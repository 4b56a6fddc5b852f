"""The default client name: program, host and process id, such as "billing.host7.4711".

If a request triggers a bug, the queue manager keeps out the client by its name. Each process
therefore has a different default name. The name also identifies the client in logs.
"""

import os
import re
import socket
import sys
from pathlib import Path

from qmgr_protocol.limits import CLIENT_NAME_MAX

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
PROGRAM_MAX, HOST_MAX = 24, 24  # number of characters; a default name then has fewer than 64


def client_name(program: str = "") -> str:
    """Returns the default name of this process. *program* defaults to the name in sys.argv."""
    host = socket.gethostname().partition(".")[0]
    parts = (program or program_of(sys.argv[:1]), PROGRAM_MAX), (host, HOST_MAX)
    words = [_UNFIT.sub("-", text)[:length] for text, length in parts]
    return ".".join([*words, str(os.getpid())])


def checked(name: str) -> str:
    """Returns *name* if it is a valid client name.

    Raises:
        ValueError: *name* is not valid UTF-8 or is longer than 255 characters.
    """
    try:
        str.encode(name)
    except (TypeError, UnicodeEncodeError):
        raise ValueError(f"the name {name!r} is not valid UTF-8") from None
    if len(name) > CLIENT_NAME_MAX:
        raise ValueError(f"the name has {len(name)} characters; the limit is {CLIENT_NAME_MAX}")
    return name


def program_of(arguments: list[str]) -> str:
    """Returns the name of the program that was started with *arguments*."""
    path = Path(arguments[0]) if arguments else Path()
    if path.name == "__main__.py":  # python -m PACKAGE
        return path.parent.name
    if path.name in ("", "-", "-c"):
        return "python"
    return path.name.removesuffix(".py")
