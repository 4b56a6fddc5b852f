"""Hints on why a selector selects no message: unknown names, double quotes, wrong wildcards.

The analysis uses only the selector and messages of the queue, and never fails.
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
PUBLISHED = ("topic", "subscription")  # fields that only publications have


def hint(selector: str, headers: Iterable[Mapping[str, Any]]) -> str:
    """Returns a hint on why *selector* selects no message with these *headers*, or "".

    The hint explains each name that is neither a field of messages nor one of the headers.
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
    """Returns the distinct names in a selector, and the patterns that follow LIKE."""
    # The import takes 20 ms, too long for --help.
    from qmgrd.core.selector import lexer as selector_lexer

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
            f"{_examined(count)} has: text needs single quotes, as in '{text}'"
        )
    near = get_close_matches(name, sorted(known | facts_known), n=1)
    suggestion = f", did you mean {near[0]}?" if near else ""
    return f"none of {_examined(count)} has a header {name}{suggestion}"


def _examined(count: int) -> str:
    return f"{humanize.messages(count)} examined"


def on_queue(client: "Client", queue: str, selector: str) -> str:
    """Returns a hint from the first messages of *queue* on an empty selection, or ""."""
    try:
        found = islice(client.browse(queue, MESSAGES_READ), MESSAGES_READ)
        return hint(selector, [message.headers for message in found])
    except RequestError:  # The queue may have been deleted in the meantime.
        return ""


def show(client: "Client", queue: str, selector: str) -> None:
    """Writes a hint to stderr on why *selector* selected no message, if a hint is known."""
    words = on_queue(client, queue, selector) if selector else ""
    if words:
        output.note(f"no message selected: {words}")


def purged(client: "Client", queue: str, selector: str) -> int | None:
    """Purges the selected messages. Returns their number, or None if the number is unknown.

    Writes a hint if no message was selected.
    """
    count = client.admin.queue_purge(queue, selector)["messages"]
    if count == 0:
        show(client, queue, selector)
    return count
