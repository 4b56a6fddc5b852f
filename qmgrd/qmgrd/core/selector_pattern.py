"""LIKE: texts against patterns in which % stands for any characters and _ for one.

    'a%b_c%d'   begins with a, then somewhere b, one character and c, then ends in d

Each piece between two % is searched from where the one before it was found, and where it is found
first it stays: a later place could only leave less room for the others. So nothing is tried twice,
and a match takes at most as many steps as the text and the pattern are long, multiplied. For
that an atomic group (?>...) of a regular expression is made, which never goes back.
"""

import re

from qmgrd.core.selector_condition import Condition, Truth
from qmgrd.core.selector_value import Expression, ValueOf

LIKE_TEXT_MAX = 4_096  # characters of a text; a longer one is neither like a pattern nor unlike it


class PatternInvalid(ValueError):
    """A pattern in which the escape stands where there is nothing to escape."""


def like(value: Expression, pattern: str, escape: str = "") -> Condition:
    """Return ``value LIKE pattern ESCAPE escape``. What is no text is FALSE.

    Raises:
        PatternInvalid: *escape* stands before something else than %, _ or itself.
    """
    matches = _expression(pattern, escape).fullmatch

    def is_like(value_of: ValueOf) -> Truth:
        text = value(value_of)
        if type(text) is str:
            return matches(text) is not None if len(text) <= LIKE_TEXT_MAX else None
        return None if text is None else False

    return is_like


def _expression(pattern: str, escape: str) -> re.Pattern[str]:
    first, *others = _pieces(pattern, escape)
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    found = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _pieces(pattern: str, escape: str) -> list[str]:
    """Return the regular expressions of what stands before, between and behind the %."""
    pieces = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if not escaped or escaped not in ("%", "_", escape):
                raise PatternInvalid(_misplaced(escape, escaped))
            pieces[-1] += re.escape(escaped)
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else re.escape(character)
    return pieces


def _misplaced(escape: str, before: str) -> str:
    where = f"stands before {before!r}, not before %, _ or itself" if before else "is its last"
    return f"the escape {escape!r} of the pattern {where}"
