"""Suggests a similar group if the named group does not exist."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from qmgr_protocol import group_id
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli.failure import refused

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

GROUPS_READ = 1_000  # maximum number of groups to read, because a suggestion must not take long


@contextmanager
def suggesting(client: "Client", doing: str, queue: str, wanted: bytes) -> Iterator[None]:
    """Suggests a similar group if the block does not find *wanted* on *queue*.

    Raises:
        Failure: NOT_FOUND if the group does not exist.
    """
    try:
        yield
    except RequestError as error:
        if error.code != ErrorCode.GROUP_UNKNOWN:
            raise
        raise refused(doing, error, similar_group(client, queue, wanted)) from error


def similar_group(client: "Client", queue: str, wanted: bytes) -> str:
    """Returns the remedy if *wanted* is not among the groups of *queue*."""
    from difflib import get_close_matches  # The import would slow down --help.

    rows = islice(client.admin.groups(queue), GROUPS_READ)
    texts = [group_id.shown(bytes.fromhex(row["group"])) for row in rows]
    known = {text.casefold().strip(): text for text in texts}
    asked = group_id.shown(wanted).casefold().strip()
    # N124 is another group of the series, not a misspelling of N123.
    same_digits = [text for text in known if _digits(text) == _digits(asked)]
    close = get_close_matches(asked, same_digits, n=1)
    suggestions = [f"did you mean {shlex.quote(known[name])}?" for name in close]
    return " ".join([*suggestions, f"see: qmctl group ls {queue}"])


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))
