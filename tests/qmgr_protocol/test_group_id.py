import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmgr_protocol import group_id

IDS = st.binary(min_size=24, max_size=24).filter(any)
TAIL = b"N12345" + bytes(18)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (TAIL, "N12345"),
        (b"N12345".ljust(24), "N12345".ljust(24)),
        (b"x" * 24, "x" * 24),
        ("Zürich".encode().ljust(24, b"\0"), "Zürich".encode().ljust(24, b"\0").hex()),
        (b"two words".ljust(24, b"\0"), "two words"),
        (b"a\0b".ljust(24, b"\0"), (b"a\0b".ljust(24, b"\0")).hex()),
        (b"bell\x07".ljust(24, b"\0"), b"bell\x07".ljust(24, b"\0").hex()),
        (b"\xff" * 24, "ff" * 24),
        (b" " * 24, "20" * 24),
        (b"\0" * 23 + b"x", "00" * 23 + "78"),
    ],
)
def test_text_is_shown_as_text_and_all_else_in_hexadecimal(data: bytes, text: str) -> None:
    assert group_id.shown(data) == text
    assert group_id.parsed(text) == data


@given(IDS)
@example(TAIL)
@example(b"N12345".ljust(24))
@example(b"N12345  ".ljust(24, b"\0"))
@example(b"0" * 24)
def test_what_is_shown_is_taken_back_as_that_group(data: bytes) -> None:
    assert group_id.parsed(group_id.shown(data)) == data
    assert group_id.parsed(data.hex()) == data
    assert group_id.parsed(data.hex().upper()) == data


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "an empty text"),
        ("00" * 24, "24 zero bytes"),
        (
            "x" * 25,
            "a text of 25 bytes exceeds the limit of 24 bytes; in hexadecimal, an id has 48 digits",
        ),
        ("ü" * 13, "a text of 26 bytes"),
        ("ab" * 23, "a text of 46 bytes"),
    ],
)
def test_invalid_group_is_refused_with_the_reason(said: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        group_id.parsed(said)


def test_text_that_is_not_ascii_is_taken_as_its_bytes() -> None:
    assert group_id.parsed("Zürich") == "Zürich".encode().ljust(24, b"\0")
