"""Names of topics and of subscriptions as people type them."""

from qmgr_protocol.topic import MARK, check_subscription, is_subscription


def bare(topic: str) -> str:
    """Return a topic, or a filter, without the mark that it has where it is a destination."""
    return topic.removeprefix(MARK)


def subscription(name: str) -> str:
    """Return *name*, which is to be that of a subscription.

    Raises:
        RequestError: NAME_INVALID, that of a queue, say.
    """
    return name if is_subscription(name) else check_subscription(name)
