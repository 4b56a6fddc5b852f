"""The words of a message selector, each with the column where it begins."""

import re
from typing import NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError

TEXT_MAX = 4_096  # characters of a selector
INTEGER_MAX = 2**63 - 1
FLOAT_MAX = 1.7976931348623157e308
SHOWN_MAX = 40  # characters of a word that an error quotes
KEYWORDS = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE")
)
QUOTE = '"'  # around the name of a header that is never a built-in fact

# Kinds of a token; of keywords and signs it is what they are.
NAME, TEXT, NUMBER, END = "name", "text", "number", "end"

_NEXT = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<name>(?:[^\W\d]|\$)[\w$.]*)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<text>'(?:[^']|'')*+')
    | (?P<quoted>"(?:[^"]|"")*+")
    | (?P<sign><>|!=|<=|>=|[=<>+\-*/%(),])
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"[\w$.]*")


class Token(NamedTuple):
    """A word of a selector."""

    kind: str
    text: str  # as it was written
    column: int  # of its first character, from 1
    value: str | int | float = ""  # of a literal; of a name, what is asked of the message

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= SHOWN_MAX else f"{self.text[:SHOWN_MAX]}..."
        if self.kind == END:
            return "the end"
        if self.kind == TEXT:
            return f"the text {shown}"
        return f"the name {shown}" if self.text[0] == QUOTE else f"'{shown}'"


def invalid(column: int, text: str) -> RequestError:
    """Return the error that a selector is wrong at *column*."""
    return RequestError(ErrorCode.SELECTOR_INVALID, f"column {column}: {text}")


def tokenize(text: str) -> list[Token]:
    """Return the words of *text*, the last of them of kind END.

    Raises:
        RequestError: SELECTOR_INVALID: over TEXT_MAX characters, or no word of the language.
    """
    if len(text) > TEXT_MAX:
        raise RequestError(
            ErrorCode.SELECTOR_INVALID, f"a selector of {len(text)} characters, at most {TEXT_MAX}"
        )
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _NEXT.match(text, offset)
        if match is None:
            raise _no_word(text, offset)
        if match.lastgroup != "space":
            tokens.append(_token(match))
        offset = match.end()
    tokens.append(Token(END, "", len(text) + 1))
    return tokens


def _no_word(text: str, offset: int) -> RequestError:
    if text[offset] == "'":
        return invalid(offset + 1, "a text that begins here has no end; inside, ' is written ''")
    if text[offset] == QUOTE:
        return invalid(offset + 1, 'a name that begins here has no end; inside, " is written ""')
    return invalid(offset + 1, f"{text[offset]!r} can be no part of a selector")


def _token(match: re.Match[str]) -> Token:
    group, text, column = match.lastgroup, match[0], match.start() + 1
    if group == "number":
        return Token(NUMBER, text, column, _number(match))
    if group == "text":
        return Token(TEXT, text, column, text[1:-1].replace("''", "'"))
    if group == "quoted":
        return Token(NAME, text, column, _quoted(text, column))
    if text == "!=":
        return Token("<>", text, column)  # Another way to write it.
    keyword = text.upper() if text.isascii() else text  # A dotless i is an I in capitals.
    if group == "sign" or keyword in KEYWORDS:
        return Token(keyword, text, column)
    return Token(NAME, text, column, text)


def _number(match: re.Match[str]) -> int | float:
    text, column = match[0], match.start() + 1
    word = _WORD.match(match.string, match.end())
    if word is not None and word[0]:
        raise invalid(column, f"'{(text + word[0])[:SHOWN_MAX]}' is no number")
    if text.isdigit():
        integer = int(text)
        if integer > INTEGER_MAX:
            raise invalid(column, f"{text[:SHOWN_MAX]} is over {INTEGER_MAX}")
        return integer
    decimal = float(text)
    if decimal > FLOAT_MAX:
        raise invalid(column, f"{text[:SHOWN_MAX]} is over {FLOAT_MAX}")
    return decimal


def _quoted(text: str, column: int) -> str:
    name = text[1:-1].replace(QUOTE * 2, QUOTE)
    if not name:
        raise invalid(column, "a name of no characters")
    return QUOTE + name + QUOTE
