"""The rows of an answer that tell which puts were refused, and why: so many that a frame holds.

An answer has up to 20,000 of them, whose texts alone would be longer than the longest frame that a
client must take. The first ones say in words what the codes say of all.
"""

from typing import Any

TEXTS_MAX = 100  # of one answer


def shortened(refused: list[list[Any]]) -> list[list[Any]]:
    """Return the rows [id, code, text] of *refused*: those behind TEXTS_MAX without their text."""
    if len(refused) <= TEXTS_MAX:
        return refused
    bare = ([number, code, ""] for number, code, _ in refused[TEXTS_MAX:])
    return [*refused[:TEXTS_MAX], *bare]
