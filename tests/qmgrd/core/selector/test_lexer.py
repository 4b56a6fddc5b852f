import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.selector.lexer import END, NAME, NUMBER, TEXT, TEXT_MAX, tokenize


def words(text: str) -> list[tuple[str, object]]:
    return [(token.kind, token.value) for token in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("carrier", NAME, "carrier"),
        ("_a$9.b", NAME, "_a$9.b"),
        ("$", NAME, "$"),
        ("größe", NAME, "größe"),
        ("Notes", NAME, "Notes"),
        ("\u0131s", NAME, "\u0131s"),
        ('"content-type"', NAME, '"content-type"'),
        ('"AND"', NAME, '"AND"'),
        ('"a""b"', NAME, '"a"b"'),
        ('" "', NAME, '" "'),
        ("''", TEXT, ""),
        ("'it''s'", TEXT, "it's"),
        ("''''", TEXT, "'"),
        ("'\n\"'", TEXT, '\n"'),
        ("0", NUMBER, 0),
        ("007", NUMBER, 7),
        ("9223372036854775807", NUMBER, 2**63 - 1),
        ("7.", NUMBER, 7.0),
        (".5", NUMBER, 0.5),
        ("6.2", NUMBER, 6.2),
        ("1e9", NUMBER, 1e9),
        ("1.E-3", NUMBER, 0.001),
        (".5e+1", NUMBER, 5.0),
        ("1e-999", NUMBER, 0.0),
        ("and", "AND", ""),
        ("Between", "BETWEEN", ""),
        ("tRuE", "TRUE", ""),
        ("<>", "<>", ""),
        ("!=", "<>", ""),
        ("%", "%", ""),
    ],
)
def test_word_has_a_kind_and_a_value(text: str, kind: str, value: object) -> None:
    assert words(text) == [(kind, value)]
    assert type(tokenize(text)[0].value) is type(value)


def test_words_need_no_space_between_them() -> None:
    assert [kind for kind, _ in words("a<=-1.5*(b)<>'x','y'=c/d>=e+f<g>h%i!=j")] == [
        NAME,
        "<=",
        "-",
        NUMBER,
        "*",
        "(",
        NAME,
        ")",
        "<>",
        TEXT,
        ",",
        TEXT,
        "=",
        NAME,
        "/",
        NAME,
        ">=",
        NAME,
        "+",
        NAME,
        "<",
        NAME,
        ">",
        NAME,
        "%",
        NAME,
        "<>",
        NAME,
    ]


@pytest.mark.parametrize("space", [" ", "\t", "\f", "\n", "\r", "\r\n"])
def test_white_space_separates_words(space: str) -> None:
    """JMS defines white space as spaces, tabs, form feeds and line ends."""
    assert words(f"{space}a{space}={space}1{space}") == words("a = 1")


def test_column_counts_characters_from_one() -> None:
    tokens = tokenize(" ä =\n\t'ü'  ")
    assert [(token.kind, token.column) for token in tokens] == [
        (NAME, 2),
        ("=", 4),
        (TEXT, 7),
        (END, 12),
    ]


def test_text_of_a_selector_has_a_limit() -> None:
    assert len(tokenize(" " * TEXT_MAX)) == 1
    with pytest.raises(RequestError) as caught:
        tokenize(" " * (TEXT_MAX + 1))
    assert caught.value.code == ErrorCode.SELECTOR_INVALID
    assert caught.value.text == "a selector of 4097 characters exceeds the limit of 4096"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "the end"),
        ("a", "'a'"),
        ("'x'", "the string 'x'"),
        ('"x"', 'the name "x"'),
        ("and", "'and'"),
        ("1.50", "'1.50'"),
        ("!=", "'!='"),
        ("a" * 41, f"'{'a' * 40}...'"),
    ],
)
def test_error_shows_a_word_as_it_was_written(text: str, shown: str) -> None:
    assert str(tokenize(text)[0]) == shown
