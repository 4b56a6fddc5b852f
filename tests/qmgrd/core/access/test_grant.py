"""Grants: which names and topics they cover, and which grants are valid."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import topic as topics
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import GRANTED_KINDS, Kind, Right
from qmgrd.core.access.grant import PATTERN_MAX, Grant, check, contains, decode

LEVELS = st.sampled_from(["a", "b", "+"])
FILTERS = st.tuples(st.lists(LEVELS, max_size=3), st.booleans()).map(
    lambda x: (*x[0], "#") if x[1] or not x[0] else tuple(x[0])
)
# Each topic of up to five levels. The level c is in no filter, so it shows what + and # match.
TOPICS = [levels for count in range(1, 6) for levels in product("abc", repeat=count)]


@given(FILTERS, FILTERS)
def test_filter_contains_another_if_it_matches_all_of_its_topics(
    outer: tuple[str, ...], inner: tuple[str, ...]
) -> None:
    """A filter such as +/# is refused for #, although both match all topics: that is safe."""
    matched = all(topics.fits(outer, topic) for topic in TOPICS if topics.fits(inner, topic))
    if contains(outer, inner):
        assert matched
    elif matched:
        assert outer[:1] == ("+",) or "#" in inner
        assert outer[-1] == "#"


@given(FILTERS, st.sampled_from(TOPICS))
def test_filter_contains_the_topics_that_it_matches(
    outer: tuple[str, ...], topic: tuple[str, ...]
) -> None:
    assert contains(outer, topic) == topics.fits(outer, topic)


@given(FILTERS, FILTERS, FILTERS)
def test_containing_is_an_order(
    one: tuple[str, ...], two: tuple[str, ...], three: tuple[str, ...]
) -> None:
    assert contains(one, one)
    if contains(one, two) and contains(two, three):
        assert contains(one, three)


@pytest.mark.parametrize(
    ("kind", "pattern", "name", "covers"),
    [
        (Kind.QUEUE, "ORDERS", "ORDERS", True),
        (Kind.QUEUE, "ORDERS", "ORDERS2", False),
        (Kind.QUEUE, "ORDERS.*", "ORDERS.EU", True),
        (Kind.QUEUE, "ORDERS.*", "ORDERS", False),
        (Kind.QUEUE, "*.EU", "ORDERS.EU", True),
        (Kind.QUEUE, "*", "anything", True),
        (Kind.QUEUE, "*", "SYSTEM.DEAD.LETTERS", False),
        (Kind.QUEUE, "S*", "SYSTEM.EVENTS", False),
        (Kind.QUEUE, "SYSTEM.*", "SYSTEM.EVENTS", True),
        (Kind.QUEUE, "*", "ORDERS@NYC", False),
        (Kind.QUEUE, "ORDERS*", "ORDERS@NYC", False),
        (Kind.QUEUE, "*@NYC", "ORDERS@NYC", True),
        (Kind.QUEUE, "*@*", "SYSTEM.EVENTS@NYC", False),
        (Kind.QUEUE, "ORDERS*", "*", False),
        (Kind.QUEUE, "*", "*", True),
        (Kind.SUBSCRIPTION, "BILLING:*", "BILLING:late", True),
        (Kind.SUBSCRIPTION, "BILLING:*", "CRM:late", False),
        (Kind.TEMPLATE, "ORDERS.*", "ORDERS.EU.*", True),
        (Kind.TEMPLATE, "ORDERS.*", "*", False),
        (Kind.TOPIC, "a/+", "a/b", True),
        (Kind.TOPIC, "a/+", "a/#", False),
        (Kind.TOPIC, "a/#", "a", True),
        (Kind.TOPIC, "a/#", "#", False),
        (Kind.TOPIC, "a/b", "", False),
    ],
)
def test_names_that_a_grant_covers(kind: Kind, pattern: str, name: str, covers: bool) -> None:
    assert Grant(Right.SHOW, kind, pattern).covers(name) == covers


GRANTS = [
    (right.value, kind, {"manager": "", "topic": "a/+/#"}.get(kind, "A.*"))
    for kind, rights in GRANTED_KINDS.items()
    for right in rights
]


@pytest.mark.parametrize("values", GRANTS, ids="-".join)
def test_stored_grant_is_the_same_after_it_was_read(values: tuple[str, str, str]) -> None:
    found = check(*values)
    assert decode([found.encode()]) == (found,)
    assert found.encode() == list(values)


@pytest.mark.parametrize(
    ("right", "kind", "pattern", "code", "why"),
    [
        ("connect", "queue", "A", ErrorCode.VALUE_INVALID, "'connect' is not a right"),
        ("fly", "queue", "A", ErrorCode.VALUE_INVALID, "'fly' is not a right; use one of put,"),
        ("put", "destination", "A", ErrorCode.VALUE_INVALID, "is not a kind of object"),
        ("admin", "user", "A", ErrorCode.VALUE_INVALID, "'user' is not a kind of object"),
        ("admin", "role", "A", ErrorCode.VALUE_INVALID, "'role' is not a kind of object"),
        ("publish", "queue", "A", ErrorCode.VALUE_INVALID, "does not exist for kind queue"),
        ("show", "manager", "A", ErrorCode.VALUE_INVALID, "has no name, but 'A' is given"),
        ("put", "queue", "", ErrorCode.NAME_INVALID, "is not a valid pattern"),
        ("put", "queue", "a b", ErrorCode.NAME_INVALID, "is not a valid pattern"),
        ("put", "queue", "A\n", ErrorCode.NAME_INVALID, "is not a valid pattern"),
        ("put", "queue", "A" * (PATTERN_MAX + 1), ErrorCode.NAME_INVALID, "use 1 to 200"),
        ("publish", "topic", "", ErrorCode.TOPIC_INVALID, "it is empty"),
        ("publish", "topic", "/a", ErrorCode.TOPIC_INVALID, "a level is empty"),
        ("publish", "topic", "#/a", ErrorCode.TOPIC_INVALID, "only as the last level"),
    ],
)
def test_grant_that_would_have_no_effect_is_refused(
    right: str, kind: str, pattern: str, code: ErrorCode, why: str
) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        check(right, kind, pattern)
    assert caught.value.code == code
