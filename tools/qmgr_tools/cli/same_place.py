"""Commands in what people are told to type: they go where the command goes that tells them.

Where --connect, --data-dir or --context was given, a "qmctl ..." in a text gets it too, so that it
acts on the same queue manager. What the environment says, and the current context, holds anyway.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

COMMAND = re.compile(r"\bqmctl (?P<words>[a-z](?:(?!\bqmctl\b)[^;&\"])*)")
ELSEWHERE = re.compile(r" at \S+: $")  # as in "say at NYC: qmctl ...": there it is typed
OWN = re.compile(r"(?:^|\s)(?:-c|--connect|--data-dir|--context|--help)\b")
LOCAL = {"bench", "context", "explain", "proxy", "store"}  # These connect to nothing, or say where.

_given: ContextVar[str] = ContextVar("given", default="")


@contextmanager
def given(options: str) -> Iterator[None]:
    """Have the commands that are told meanwhile get these *options*, as they are typed."""
    token = _given.set(options)
    try:
        yield
    finally:
        _given.reset(token)


def commands(text: str) -> str:
    """Return *text*, each command in it with what was given, unless it says where it goes."""
    options = _given.get()

    def led(match: re.Match[str]) -> str:
        words = match["words"]
        is_local = words.split()[0].rstrip(",.:") in LOCAL
        if is_local or OWN.search(words) or ELSEWHERE.search(text[: match.start()]):
            return match[0]
        return f"qmctl {options} {words}"

    return COMMAND.sub(led, text) if options else text
