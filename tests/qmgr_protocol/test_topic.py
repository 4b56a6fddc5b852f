"""Tests of topics and filters: what they match, and the messages of refusals."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.topic import (
    LEVELS_MAX,
    TOPIC_MAX_BYTES,
    check_subscription,
    filter_of,
    fits,
    is_subscription,
    is_topic,
    levels_of,
)

LEVEL = st.sampled_from(["a", "b", "c"])
TOPICS = st.lists(LEVEL, min_size=1, max_size=5).map(tuple)
FILTERS = st.tuples(st.lists(LEVEL | st.just("+"), max_size=4), st.booleans()).map(
    lambda parts: (*parts[0], "#") if parts[1] or not parts[0] else tuple(parts[0])
)


def model(filter_: tuple[str, ...], topic: tuple[str, ...]) -> bool:
    """Compares the levels one by one, in the simplest correct way."""
    if filter_ == ("#",):
        return True
    if not filter_ or not topic:
        return filter_ == topic
    return filter_[0] in ("+", topic[0]) and model(filter_[1:], topic[1:])


@given(FILTERS, TOPICS)
@example(("a", "#"), ("a",))
@example(("#",), ("a",))
@example(("a", "+", "#"), ("a",))
def test_filter_has_what_the_model_says(filter_: tuple[str, ...], topic: tuple[str, ...]) -> None:
    assert fits(filter_, topic) == model(filter_, topic)
    assert filter_of("/".join(filter_)) == filter_
    assert levels_of("/".join(topic)) == topic


@given(TOPICS)
def test_topic_is_a_filter_that_has_itself_alone(topic: tuple[str, ...]) -> None:
    assert fits(topic, topic)
    assert not fits(topic, (*topic, "a"))
    assert not fits((*topic, "a"), topic)


@given(TOPICS, st.data())
def test_filter_made_from_a_topic_has_it(topic: tuple[str, ...], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(topic)))
    wide = tuple("+" if data.draw(st.booleans()) else level for level in topic)
    assert fits(wide, topic)
    assert fits((*wide[:cut], "#"), topic)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("x" * 201, "201 bytes exceed the limit of 200"),
        ("ä" * 101, "202 bytes exceed the limit of 200"),
        ("/a", "a level is empty: use / only between levels"),
        ("a//b", "a level is empty: use / only between levels"),
        ("a/", "a level is empty: use / only between levels"),
        ("/", "a level is empty: use / only between levels"),
        ("/".join("a" * 33), "33 levels exceed the limit of 32"),
        ("a\nb", "it contains an unprintable character or an @"),
        ("a/b\x00", "it contains an unprintable character or an @"),
        ("a\ud800", "it contains an unprintable character or an @"),
        ("a/b@NYC", "it contains an unprintable character or an @"),
    ],
)
def test_text_that_is_neither_topic_nor_filter_is_refused(text: str, why: str) -> None:
    for read, noun in ((levels_of, "topic"), (filter_of, "filter")):
        with pytest.raises(RequestError) as caught:
            read(text)
        assert caught.value.code == ErrorCode.TOPIC_INVALID
        assert caught.value.text == f"{text[:80]!r} is not a valid {noun}: {why}"


@pytest.mark.parametrize("text", ["a/+", "#", "a/#", "a+b", "a/b#"])
def test_wild_cards_are_for_those_who_subscribe(text: str) -> None:
    with pytest.raises(
        RequestError, match=r"\+ and # are allowed only in filters of subscriptions"
    ) as error:
        levels_of(text)
    assert error.value.code == ErrorCode.TOPIC_INVALID


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#/a", "# is valid only as the last level"),
        ("a/#/b", "# is valid only as the last level"),
        ("a/b#", r"\+ and # must be a whole level"),
        ("a+/b", r"\+ and # must be a whole level"),
        ("++", r"\+ and # must be a whole level"),
        ("a/#+", r"\+ and # must be a whole level"),
    ],
)
def test_wild_card_in_a_wrong_place_is_refused(text: str, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        filter_of(text)
    assert caught.value.code == ErrorCode.TOPIC_INVALID


def test_longest_topic_is_one() -> None:
    assert len(levels_of("/".join("a" * LEVELS_MAX))) == LEVELS_MAX
    assert levels_of("x" * TOPIC_MAX_BYTES) == ("x" * TOPIC_MAX_BYTES,)
    assert levels_of("Flüge/Zürich HB/ÄÖ") == ("Flüge", "Zürich HB", "ÄÖ")


@given(st.text(max_size=250))
def test_whatever_is_said_is_read_or_refused(text: str) -> None:
    for read in (levels_of, filter_of):
        refusal: RequestError | None = None
        try:
            assert "/".join(read(text)) == text
        except RequestError as error:
            refusal = error
        if refusal is not None:
            assert refusal.code == ErrorCode.TOPIC_INVALID
            assert len(refusal.text) < 1_000


@pytest.mark.parametrize(
    "name",
    ["BILLING:late", ":late", ":late@NYC", "billing.host7.4711:a-b_c.d", f"{'a' * 64}:{'b' * 64}"],
)
def test_name_of_a_subscription_is_one(name: str) -> None:
    assert check_subscription(name) == name
    assert is_subscription(name)
    assert not is_topic(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "late",
        ":",
        "B:",
        "B:a:b",
        "B:late@NYC",
        ":late@",
        "B C:late",
        ":a/b",
        "~2-4f2a.17",
        f":{'b' * 65}",
        ":late\n",
        "B:+",
    ],
)
def test_what_no_durable_subscription_is_called_is_refused(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_subscription(name)
    assert caught.value.code == ErrorCode.NAME_INVALID
    assert caught.value.text.startswith(
        f"{name!r} is not the name of a subscription: use CLIENT:NAME, :NAME for one of an "
    )


def test_what_a_name_stands_for_shows_in_it() -> None:
    assert is_topic("/flights/JFK")
    assert is_topic("/")
    assert is_subscription("~2-4f2a91c07b3d.17")
    for queue in ("ORDERS", "ORDERS@NYC", "@NYC", ""):
        assert not is_topic(queue)
        assert not is_subscription(queue)
