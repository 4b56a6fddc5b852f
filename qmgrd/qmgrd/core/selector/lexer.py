"""Splits a message selector into words, each with its column."""

import re
from typing import NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError

TEXT_MAX = 4_096  # maximum number of characters in a selector
INTEGER_MAX = 2**63 - 1
FLOAT_MAX = 1.7976931348623157e308
SHOWN_MAX = 40  # maximum number of characters of a word shown in an error message
KEYWORDS = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE")
)
QUOTE = '"'  # the character around a name that always refers to a header

# Kinds of tokens. The kind of a keyword or operator is the keyword or operator itself.
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
    text: str  # the word as written in the selector
    column: int  # the column of the first character, counted from 1
    value: str | int | float = ""  # the value of a literal, or a name without its quotes

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= SHOWN_MAX else f"{self.text[:SHOWN_MAX]}..."
        if self.kind == END:
            return "the end"
        if self.kind == TEXT:
            return f"the string {shown}"
        return f"the name {shown}" if self.text[0] == QUOTE else f"'{shown}'"


def selector_error(column: int, text: str) -> RequestError:
    """Returns the error for a mistake at *column* in a selector."""
    return RequestError(ErrorCode.SELECTOR_INVALID, f"column {column}: {text}")


def tokenize(text: str) -> list[Token]:
    """Returns the words of *text*, followed by a word of the kind END.

    Raises:
        RequestError: SELECTOR_INVALID if *text* exceeds TEXT_MAX characters, or has an invalid
            word.
    """
    if len(text) > TEXT_MAX:
        raise RequestError(
            ErrorCode.SELECTOR_INVALID,
            f"a selector of {len(text)} characters exceeds the limit of {TEXT_MAX}",
        )
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _NEXT.match(text, offset)
        if match is None:
            raise _word_error(text, offset)
        if match.lastgroup != "space":
            tokens.append(_token(match))
        offset = match.end()
    tokens.append(Token(END, "", len(text) + 1))
    return tokens


def _word_error(text: str, offset: int) -> RequestError:
    if text[offset] == "'":
        return selector_error(
            offset + 1, "string without a closing '; write '' for ' inside a string"
        )
    if text[offset] == QUOTE:
        return selector_error(offset + 1, 'name without a closing "; write "" for " inside a name')
    return selector_error(offset + 1, f"invalid character {text[offset]!r}")


def _token(match: re.Match[str]) -> Token:
    group, text, column = match.lastgroup, match[0], match.start() + 1
    if group == "number":
        return Token(NUMBER, text, column, _number(match))
    if group == "text":
        return Token(TEXT, text, column, text[1:-1].replace("''", "'"))
    if group == "quoted":
        return Token(NAME, text, column, _quoted(text, column))
    if text == "!=":
        return Token("<>", text, column)  # != is another spelling of <>.
    keyword = text.upper() if text.isascii() else text  # upper() turns a dotless i into I.
    if group == "sign" or keyword in KEYWORDS:
        return Token(keyword, text, column)
    return Token(NAME, text, column, text)


def _number(match: re.Match[str]) -> int | float:
    text, column = match[0], match.start() + 1
    word = _WORD.match(match.string, match.end())
    if word is not None and word[0]:
        raise selector_error(column, f"'{(text + word[0])[:SHOWN_MAX]}' is not a valid number")
    if text.isdigit():
        integer = int(text)
        if integer > INTEGER_MAX:
            raise selector_error(column, f"{text[:SHOWN_MAX]} exceeds the limit of {INTEGER_MAX}")
        return integer
    decimal = float(text)
    if decimal > FLOAT_MAX:
        raise selector_error(column, f"{text[:SHOWN_MAX]} exceeds the limit of {FLOAT_MAX}")
    return decimal


def _quoted(text: str, column: int) -> str:
    name = text[1:-1].replace(QUOTE * 2, QUOTE)
    if not name:
        raise selector_error(column, "a name must not be empty")
    return QUOTE + name + QUOTE
