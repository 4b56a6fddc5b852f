import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import name
from qmgr_protocol.errors import ErrorCode, RequestError

BAD = [
    "",
    " ",
    "a b",
    "a/b",
    "..\\x",
    "q\n",
    "\nq",
    "q\0",
    "%s%n",
    "ORDERS ",
    "größe",
    "\u202eq",
    "😀",
    "x" * 65,
    "a@b@c",
    "a@b c",
    "Q@",
    "a b@NYC",
    "@",
    "@@NYC",
    "A\u0130",
]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ORDERS", ("ORDERS", "")),
        ("a", ("a", "")),
        ("x" * 64, ("x" * 64, "")),
        ("a.b_c-9", ("a.b_c-9", "")),
        ("..", ("..", "")),  # Names are never used as paths.
        ("FLIGHTS@NYC", ("FLIGHTS", "NYC")),
        ("@NYC", ("", "NYC")),
    ],
)
def test_name_is_split(text: str, parts: tuple[str, str]) -> None:
    assert name.split(text) == parts


@pytest.mark.parametrize("text", BAD)
def test_invalid_name_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        name.split(text)
    assert caught.value.code == ErrorCode.NAME_INVALID


@pytest.mark.parametrize("text", [*BAD, "FLIGHTS@NYC", "@NYC"])
def test_plain_name_has_no_queue_manager(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        name.check(text)
    assert caught.value.code == ErrorCode.NAME_INVALID


def test_check_returns_the_name() -> None:
    assert name.check("ORDERS") == "ORDERS"


def test_case_counts() -> None:
    assert name.split("orders") != name.split("ORDERS")


@given(st.text(max_size=200) | st.text("ab@. ", max_size=8))
def test_refusal_is_short_and_can_be_printed(text: str) -> None:
    refusal = None
    try:
        queue, manager = name.split(text)
    except RequestError as error:
        refusal = error.text
    if refusal is None:
        assert text == queue + ("@" + manager if manager else "")
        assert all(name.is_name(part) for part in (queue, manager) if part)
        assert queue or manager
    else:
        assert refusal.isprintable()
        assert len(refusal) < 1_000


@pytest.mark.parametrize(
    ("text", "words"),
    [("/flights/JFK", "; a topic accepts only puts"), ("flights/JFK", "; a topic starts with /")],
)
def test_topic_is_told_from_a_queue(text: str, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        name.split(text)
    assert words in caught.value.text
