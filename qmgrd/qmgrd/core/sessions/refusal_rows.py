"""The rows for refused puts in a reply, short enough for a frame.

A reply has up to 20,000 rows. Their error messages alone would be longer than the longest frame
that a client must accept. Therefore, all rows have codes, but only the first rows have messages.
"""

from typing import Any

TEXTS_MAX = 100  # the maximum number of error messages in one reply


def shortened(refused: list[list[Any]]) -> list[list[Any]]:
    """Returns the rows [id, code, message] of *refused*. Rows after TEXTS_MAX have no message."""
    if len(refused) <= TEXTS_MAX:
        return refused
    bare = ([number, code, ""] for number, code, _ in refused[TEXTS_MAX:])
    return [*refused[:TEXTS_MAX], *bare]
