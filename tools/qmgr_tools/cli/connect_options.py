"""Adds the connection option of a command to the commands that its output suggests.

If the user gives --connect, --data-dir or --context, each suggested "qmctl ..." gets the same
option, so that it acts on the same queue manager. The environment and the current context apply
without an option.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COMMAND = re.compile(r"\bqmctl (?P<words>[a-z](?:(?!\bqmctl\b)[^;&\"])*)")
ELSEWHERE = re.compile(r" at \S+: $")  # matches "at NYC: qmctl ...", a command to type at NYC
OWN = re.compile(r"(?:^|\s)(?:-c|--connect|--data-dir|--context|--help)\b")
# commands that do not connect, or that name an address
LOCAL = {"bench", "context", "explain", "proxy", "store"}

_in_use: ContextVar[str] = ContextVar("in_use", default="")


@contextmanager
def in_use(options: str) -> Iterator[None]:
    """Adds *options*, as typed, to the commands that are suggested in this block."""
    token = _in_use.set(options)
    try:
        yield
    finally:
        _in_use.reset(token)


def add_to(text: str) -> str:
    """Returns *text*, with the options in use added to each command without such an option."""
    options = _in_use.get()

    def completed(match: re.Match[str]) -> str:
        words = match["words"]
        is_local = words.split()[0].rstrip(",.:") in LOCAL
        if is_local or OWN.search(words) or ELSEWHERE.search(text[: match.start()]):
            return match[0]
        return f"qmctl {options} {words}"

    return COMMAND.sub(completed, text) if options else text
