"""LIKE: matches strings with patterns in which % stands for any characters, and _ for one.

    'a%b_c%d'   begins with a, then somewhere b, one character and c, then ends in d
     ^ head     ^ middle: between two %                            tail ^

Each middle piece is searched after the previous one. Its first match is final, because a later
match leaves less room for the other pieces. Therefore, the search never backtracks.

Pieces without _ are searched by str.find, whose time hardly depends on the length of the piece.
Pieces with _ are searched by a regular expression. The number of its steps is at most the length of
the string times the length of the longest piece, because an atomic group (?>...) never backtracks.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from qmgrd.core.selector.condition import Condition, Truth
from qmgrd.core.selector.value import Expression, ValueOf

_Piece: TypeAlias = list[str | None]  # the characters of a piece; None stands for _
# A function from a string and a start to the end of the match, or -1.
_Search: TypeAlias = Callable[[str, int], int]

# Maximum number of characters in a string; the result for a longer string is UNKNOWN.
LIKE_TEXT_MAX = 4_096
_PIECE_NS = 80  # time in nanoseconds to continue with the next piece


class PatternInvalid(ValueError):
    """The escape character of a pattern is not followed by %, _ or itself."""


def like(value: Expression, pattern: str, escape: str = "") -> Condition:
    """Returns ``value LIKE pattern ESCAPE escape``. The result is FALSE if *value* is not a string.

    Raises:
        PatternInvalid: *escape* is not followed by %, _ or itself.
    """
    matches = _matches(_pieces(pattern, escape))

    def is_like(value_of: ValueOf) -> Truth:
        text = value(value_of)
        if type(text) is str:
            return matches(text) if len(text) <= LIKE_TEXT_MAX else None
        return None if text is None else False

    return is_like


def steps(pattern: str, escape: str = "") -> int:
    """Returns the maximum number of steps of a match per character. A step takes about 1 ns.

    Strings that nearly match everywhere need the maximum, such as "aaaa" for "%aab%".

    Raises:
        PatternInvalid: *escape* is not followed by %, _ or itself.
    """
    middle = _pieces(pattern, escape)[1:-1]
    longest = max(map(len, middle), default=0)
    search = 20 + 2 * longest if _has_signs(middle) else longest // 2
    return 1 + search + min(len(middle), _PIECE_NS)


def _has_signs(pieces: Sequence[_Piece]) -> bool:
    return any(None in piece for piece in pieces)


def _matches(pieces: list[_Piece]) -> Callable[[str], bool]:
    """Returns a function that matches *pieces*, with any characters between two pieces."""
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
    """Returns a function that finds pieces without _ one after the other."""
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
    """Returns a function that finds *pieces* one after the other."""
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
    """Returns the pieces of *pattern*, split at each %."""
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
    found = f"found {before!r}" if before else "found the end"
    return f"expected %, _ or {escape!r} after the escape character {escape!r}, {found}"
