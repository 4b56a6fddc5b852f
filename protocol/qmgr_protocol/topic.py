"""Topics, filters of topics, and names of subscriptions.

    flights/JFK/UA       a topic: levels separated by /
    flights/+/UA         a filter: + matches any one level
    flights/#            # matches any number of levels, even none: it matches flights itself

A destination that begins with / is a topic. For example, a put to ``/flights/JFK/UA`` is a
publication.

    BILLING:delays       a durable subscription of the client BILLING
    :delays              a durable subscription of an administrator
    :delays@NYC          a proxy: sends matching publications to the same topic at NYC
    ~2-4f2a91c07b3d.17   a subscription that is not durable: it ends with its connection
"""

import re
from functools import lru_cache

from qmgr_protocol.errors import ErrorCode, RequestError

MARK = "/"  # the first character of a destination that is a topic
ONE, MANY = "+", "#"
DYNAMIC = "~"  # the first character of the name of a subscription that is not durable
TOPIC_MAX_BYTES = 200
LEVELS_MAX = 32
_NAME = r"[A-Za-z0-9._-]{1,64}"
_SUBSCRIPTION = re.compile(rf"(?:{_NAME})?:{_NAME}(?:@{_NAME})?")
_PROXY = re.compile(rf":{_NAME}@{_NAME}")


def is_topic(destination: str) -> bool:
    """Returns whether *destination* starts with the mark of a topic, even if it is malformed."""
    return destination[:1] == MARK


def is_subscription(name: str) -> bool:
    """Returns whether *name* has the mark of a subscription, even if it is malformed."""
    return name[:1] == DYNAMIC or ":" in name


@lru_cache(maxsize=4_096)  # Publishers use the same topics repeatedly.
def levels_of(topic: str) -> tuple[str, ...]:
    """Returns the levels of *topic*, which is passed without its mark.

    Raises:
        RequestError: TOPIC_INVALID, with the reason.
    """
    levels = _levels(topic, "topic")
    for level in levels:
        if ONE in level or MANY in level:
            raise _topic_error(
                "topic", topic, f"{ONE} and {MANY} are allowed only in filters of subscriptions"
            )
    return levels


def filter_of(text: str) -> tuple[str, ...]:
    """Returns the levels of the filter *text*.

    Raises:
        RequestError: TOPIC_INVALID, with the reason.
    """
    levels = _levels(text, "filter")
    for at, level in enumerate(levels):
        if level == MANY and at < len(levels) - 1:
            raise _topic_error("filter", text, f"{MANY} is valid only as the last level")
        if level not in (ONE, MANY) and (ONE in level or MANY in level):
            raise _topic_error("filter", text, f"{ONE} and {MANY} must be a whole level")
    return levels


def fits(filter_: tuple[str, ...], topic: tuple[str, ...]) -> bool:
    """Returns whether *topic* matches *filter_*."""
    for at, level in enumerate(filter_):
        if level == MANY:
            return True
        if at >= len(topic) or level not in (ONE, topic[at]):
            return False
    return len(filter_) == len(topic)


def check_subscription(name: str) -> str:
    """Returns *name* if it is a valid name of a durable subscription or a proxy.

    Raises:
        RequestError: NAME_INVALID if the name is not valid.
    """
    if _SUBSCRIPTION.fullmatch(name) and ("@" not in name or _PROXY.fullmatch(name)):
        return name
    raise RequestError(
        ErrorCode.NAME_INVALID,
        f"{name[:150]!r} is not the name of a subscription: use CLIENT:NAME, :NAME for one of an "
        "administrator, or :NAME@MANAGER for a proxy, each of A-Z a-z 0-9 . _ -",
    )


def _levels(text: str, noun: str) -> tuple[str, ...]:
    size = len(text.encode(errors="replace"))
    if not text:
        raise _topic_error(noun, text, "it is empty")
    if size > TOPIC_MAX_BYTES:
        raise _topic_error(noun, text, f"{size} bytes exceed the limit of {TOPIC_MAX_BYTES}")
    levels = tuple(text.split(MARK))
    if not all(levels):
        raise _topic_error(noun, text, f"a level is empty: use {MARK} only between levels")
    if len(levels) > LEVELS_MAX:
        raise _topic_error(noun, text, f"{len(levels)} levels exceed the limit of {LEVELS_MAX}")
    if not text.isprintable() or "@" in text:  # An @ would mark a queue manager.
        raise _topic_error(noun, text, "it contains an unprintable character or an @")
    return levels


def _topic_error(noun: str, text: str, why: str) -> RequestError:
    return RequestError(ErrorCode.TOPIC_INVALID, f"{text[:80]!r} is not a valid {noun}: {why}")
