"""Shortens the list of refused puts in an answer, so that a frame can hold it.

An answer has up to 20,000 rows, and their texts alone would exceed the longest frame that a client
must accept. Every row has its code; only the first ones have a text.
"""

from typing import Any

TEXTS_MAX = 100  # of one answer


def shortened(refused: list[list[Any]]) -> list[list[Any]]:
    """Returns the rows [id, code, text] of *refused*; rows after TEXTS_MAX lose their text."""
    if len(refused) <= TEXTS_MAX:
        return refused
    bare = ([number, code, ""] for number, code, _ in refused[TEXTS_MAX:])
    return [*refused[:TEXTS_MAX], *bare]
