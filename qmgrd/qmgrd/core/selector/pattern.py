"""LIKE: texts against patterns in which % stands for any characters and _ for one.

    'a%b_c%d'   begins with a, then somewhere b, one character and c, then ends in d
     ^ head     ^ middle: between two %                            tail ^

Each piece of the middle is searched from where the one before it was found, and where it is found
first it stays: a later place could only leave less room for the others. So nothing is tried twice.
Pieces without _ are searched by str.find, which takes a text hardly longer for a long piece. With _
a match takes at most as many steps as the text and the longest piece are long, multiplied: for that
an atomic group (?>...) of a regular expression is made, which never goes back.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from qmgrd.core.selector.condition import Condition, Truth
from qmgrd.core.selector.value import Expression, ValueOf

_Piece: TypeAlias = list[str | None]  # its characters; None stands for any
_Search: TypeAlias = Callable[[str, int], int]  # where what was found ends, or -1

LIKE_TEXT_MAX = 4_096  # characters of a text; a longer one is neither like a pattern nor unlike it
_PIECE_NS = 80  # to go on with the next piece, which needs a character at least


class PatternInvalid(ValueError):
    """A pattern in which the escape stands where there is nothing to escape."""


def like(value: Expression, pattern: str, escape: str = "") -> Condition:
    """Return ``value LIKE pattern ESCAPE escape``. What is no text is FALSE.

    Raises:
        PatternInvalid: *escape* stands before something else than %, _ or itself.
    """
    matches = _matches(_pieces(pattern, escape))

    def is_like(value_of: ValueOf) -> Truth:
        text = value(value_of)
        if type(text) is str:
            return matches(text) if len(text) <= LIKE_TEXT_MAX else None
        return None if text is None else False

    return is_like


def steps(pattern: str, escape: str = "") -> int:
    """Return how long a match takes, for each character of the text: about as many nanoseconds.

    That is of texts that nearly match everywhere, such as "aaaa" for "%aab%"; others take less.

    Raises:
        PatternInvalid: as *like* does.
    """
    middle = _pieces(pattern, escape)[1:-1]
    longest = max(map(len, middle), default=0)
    search = 20 + 2 * longest if _has_signs(middle) else longest // 2
    return 1 + search + min(len(middle), _PIECE_NS)


def _has_signs(pieces: Sequence[_Piece]) -> bool:
    return any(None in piece for piece in pieces)


def _matches(pieces: list[_Piece]) -> Callable[[str], bool]:
    """Return what says whether a text has *pieces*, with whatever between two of them."""
    head, *others = pieces
    if not others:
        whole = _compiled(_expression(head)).fullmatch
        return lambda text: whole(text) is not None
    *middle, tail = others
    begins, ends = _compiled(_expression(head)).match, _compiled(_expression(tail)).fullmatch
    search = _searched(middle) if _has_signs(middle) else _found(middle)

    def is_match(text: str) -> bool:
        tail_at = len(text) - len(tail)
        if tail_at < len(head) or begins(text) is None or ends(text, tail_at) is None:
            return False
        return 0 <= search(text, len(head)) <= tail_at

    return is_match


def _found(pieces: list[_Piece]) -> _Search:
    """Return what finds *pieces*, which have no _, one behind the other."""
    texts = ["".join(filter(None, piece)) for piece in pieces]

    def search(text: str, at: int) -> int:
        for wanted in texts:
            at = text.find(wanted, at)
            if at < 0:
                return -1
            at += len(wanted)
        return at

    return search


def _searched(pieces: list[_Piece]) -> _Search:
    """Return what finds *pieces* one behind the other."""
    match = _compiled("".join(f"(?>.*?{_expression(piece)})" for piece in pieces)).match

    def search(text: str, at: int) -> int:
        found = match(text, at)
        return -1 if found is None else found.end()

    return search


def _expression(piece: _Piece) -> str:
    return "".join("." if sign is None else re.escape(sign) for sign in piece)


def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.DOTALL)


def _pieces(pattern: str, escape: str) -> list[_Piece]:
    """Return what stands before, between and behind the %."""
    pieces: list[_Piece] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if not escaped or escaped not in ("%", "_", escape):
                raise PatternInvalid(_misplaced(escape, escaped))
            pieces[-1].append(escaped)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    return pieces


def _misplaced(escape: str, before: str) -> str:
    where = f"stands before {before!r}, not before %, _ or itself" if before else "is its last"
    return f"the escape {escape!r} of the pattern {where}"
