"""The rows of an answer for refused puts, short enough for a frame.

An answer has up to 20,000 rows. Their texts alone would be longer than the longest frame that a
client must accept. So all rows have codes, but only the first ones have texts.
"""

from typing import Any

TEXTS_MAX = 100  # of one answer


def shortened(refused: list[list[Any]]) -> list[list[Any]]:
    """Returns the rows [id, code, text] of *refused*; those after TEXTS_MAX without text."""
    if len(refused) <= TEXTS_MAX:
        return refused
    bare = ([number, code, ""] for number, code, _ in refused[TEXTS_MAX:])
    return [*refused[:TEXTS_MAX], *bare]
