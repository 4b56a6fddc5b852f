"""What is asked about topics, subscriptions and what is parked for them, as in PROTOCOL.md.

A publication is an ordinary put to a topic, and a subscription is consumed like a queue.
"""
# ruff: noqa: RUF012 - these defaults are the messages' own: nobody changes what a message holds

from typing import Any, NamedTuple

__all__ = [
    "Republish",
    "RepublishList",
    "Subscribe",
    "SubscriptionHealthy",
    "SubscriptionList",
    "TopicDelete",
    "TopicLacks",
    "TopicList",
    "TopicSet",
    "TopicShow",
    "Unsubscribe",
]


class Subscribe(NamedTuple):
    """Subscribes to the topics that a filter has. OK value: the row of the subscription.

    subscription: empty for one that is not durable, whose new name the row has; that of a durable
    one that exists with the same topic, selector and attributes is answered as it is.
    where: a selector: what it does not match is not for this subscription.
    retained: whether it begins with the last retained publication of each topic.
    """

    request_id: int
    topic: str
    subscription: str = ""
    where: str = ""
    attributes: dict[str, Any] = {}
    retained: bool = True


class Unsubscribe(NamedTuple):
    """Ends a subscription with all that it holds. OK value: {messages}."""

    request_id: int
    subscription: str


class SubscriptionList(NamedTuple):
    """Lists subscriptions in order of name, after a name. OK value: {subscriptions, next}.

    topic: those only whose filter has that topic; empty: all.
    """

    request_id: int
    after: str = ""
    limit: int = 1000
    topic: str = ""


class SubscriptionHealthy(NamedTuple):
    """Says that a subscriber can take messages again. OK value: its row, and the *job* or nil.

    A suspended subscription goes on; what is parked for it is republished where its topic has it so
    by its policy (republish = healthy).
    """

    request_id: int
    subscription: str


class TopicSet(NamedTuple):
    """Defines what holds for a topic and all below it. OK value: its row.

    attributes: all of them; nil, or not named: it is as the topic above has it.
    """

    request_id: int
    topic: str
    attributes: dict[str, Any] = {}


class TopicDelete(NamedTuple):
    """Deletes what is defined for a topic; or, with retained, its retained publication. OK: nil."""

    request_id: int
    topic: str
    retained: bool = False


class TopicList(NamedTuple):
    """Lists topics that are defined or have a retained publication. OK value: {topics, next}."""

    request_id: int
    after: str = ""
    limit: int = 1000


class TopicShow(NamedTuple):
    """Shows what holds for a topic, and the subscriptions that it fits. OK value: its row."""

    request_id: int
    topic: str


class TopicLacks(NamedTuple):
    """Asks which subscriptions have not consumed a publication. OK: {uid, topic, subscriptions}."""

    request_id: int
    uid: bytes


class RepublishList(NamedTuple):
    """Lists what is parked, in order of publication, after a place. OK value: {parked, next}.

    Each of parked is one publication for one subscription; limit counts these.
    where: a selector; uid: of one publication; subscription: of one subscriber.
    """

    request_id: int
    after: list[int] | None = None
    limit: int = 1000
    where: str = ""
    uid: bytes = b""
    subscription: str = ""


class Republish(NamedTuple):
    """Has what is parked be delivered once more, to those alone for whom it is; or drops it.

    A job; OK value: its row. Of those who are away it waits until they are back.

    uid, where, subscriptions: which; where none is given, all that is parked now.
    rate, messages_max: how many in a second, and in all; 0 = any.
    """

    request_id: int
    drop: bool = False
    uid: bytes = b""
    where: str = ""
    subscriptions: list[str] = []
    rate: int = 0
    messages_max: int = 0
