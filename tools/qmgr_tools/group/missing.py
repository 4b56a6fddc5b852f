"""What to try where a queue has no such group: another one that is there."""

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

LOOKED_AT = 1_000  # groups: more would be a long time for a guess


@contextmanager
def looking(client: "Client", doing: str, queue: str, wanted: bytes) -> Iterator[None]:
    """Where the block finds no group *wanted* on *queue*, name one like it.

    Raises:
        Failure: NOT_FOUND.
    """
    try:
        yield
    except RequestError as error:
        if error.code != ErrorCode.GROUP_UNKNOWN:
            raise
        raise refused(doing, error, look_for(client, queue, wanted)) from error


def look_for(client: "Client", queue: str, wanted: bytes) -> str:
    """Return what to try where *wanted* is not to be found among the groups of *queue*."""
    from difflib import get_close_matches  # not for --help

    rows = islice(client.admin.groups(queue), LOOKED_AT)
    texts = [group_id.shown(bytes.fromhex(row["group"])) for row in rows]
    known = {text.casefold().strip(): text for text in texts}
    asked = group_id.shown(wanted).casefold().strip()
    # Of a series the next number is another one, not the same mistyped.
    alike = [text for text in known if _digits(text) == _digits(asked)]
    close = get_close_matches(asked, alike, n=1)
    meant = [f"did you mean {shlex.quote(known[name])}?" for name in close]
    return " ".join([*meant, f"see: qmctl group ls {queue}"])


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))
