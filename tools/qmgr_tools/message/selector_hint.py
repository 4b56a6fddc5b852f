"""Hints on why a selector selects nothing: unknown names, double quotes, wrong wildcards.

The analysis uses the selector and messages of the queue only, and never fails.
"""

from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from qmgr_protocol.errors import RequestError
from qmgr_tools.cli import humanize, output

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

MESSAGES_READ = 100
QUOTE = '"'
PUBLISHED = ("topic", "subscription")  # fields of publications only


def hint(selector: str, headers: Iterable[Mapping[str, Any]]) -> str:
    """Return why *selector* may select none of the messages with these *headers*; or "".

    The hint explains each name that is neither a field of messages nor a header of one of them.
    """
    rows = list(headers)
    if not rows:
        return ""
    known = {name for row in rows for name in row}
    names, patterns = _names_and_patterns(selector)
    found = [_about(name, known, len(rows)) for name in names]
    found += [
        f"in LIKE '{pattern}' the wildcard is %, not *"
        for pattern in patterns
        if "*" in pattern and "%" not in pattern
    ]
    return "; ".join(filter(None, found))


def _names_and_patterns(selector: str) -> tuple[list[str], list[str]]:
    """Return the names in a selector, each once, and the patterns that follow LIKE."""
    from qmgrd.core.selector import lexer as selector_lexer  # takes 20 ms: not for --help

    try:
        tokens = selector_lexer.tokenize(selector)
    except RequestError:
        return [], []
    names = (str(token.value) for token in tokens if token.kind == selector_lexer.NAME)
    patterns = [
        str(token.value)
        for before, token in pairwise(tokens)
        if before.kind == "LIKE" and token.kind == selector_lexer.TEXT
    ]
    return list(dict.fromkeys(names)), patterns


def _about(name: str, known: set[str], count: int) -> str:
    from difflib import get_close_matches

    from qmgrd.core.queue import facts, notes

    facts_known = {*facts.BUILT_IN, *PUBLISHED, *notes.facts_of({})}
    is_quoted = name.startswith(QUOTE)
    bare = name[1:-1] if is_quoted else name
    if bare in known or (not is_quoted and name in facts_known):
        return ""
    if is_quoted:
        text = bare.replace("'", "''")
        return (
            f"{name} in double quotes is the name of a header, which none of "
            f"{_examined(count)} has: write a text in single quotes, '{text}'"
        )
    near = get_close_matches(name, sorted(known | facts_known), n=1)
    suggestion = f", did you mean {near[0]}?" if near else ""
    return f"none of {_examined(count)} has a header {name}{suggestion}"


def _examined(count: int) -> str:
    return f"{humanize.messages(count)} examined"


def on_queue(client: "Client", queue: str, selector: str) -> str:
    """Return why *selector* may select nothing on *queue*, by its first messages; or ""."""
    try:
        found = islice(client.browse(queue, MESSAGES_READ), MESSAGES_READ)
        return hint(selector, [message.headers for message in found])
    except RequestError:  # The queue was deleted meanwhile, for example.
        return ""


def show(client: "Client", queue: str, selector: str) -> None:
    """Write a hint to stderr on why *selector* selected nothing on *queue*, if one is known."""
    words = on_queue(client, queue, selector) if selector else ""
    if words:
        output.note(f"no message selected: {words}")


def purged(client: "Client", queue: str, selector: str) -> int | None:
    """Purge the selected messages; return their number, None if unknown; write a hint if none."""
    count = client.admin.queue_purge(queue, selector)["messages"]
    if count == 0:
        show(client, queue, selector)
    return count
