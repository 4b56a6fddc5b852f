"""The destination of a put: a queue, QUEUE@MANAGER or a topic with a leading /."""

from qmgr_protocol import name as names
from qmgr_protocol import topic as topics


def check(name: str) -> None:
    """Raises RequestError NAME_INVALID or TOPIC_INVALID if *name* is not a destination."""
    if topics.is_topic(name):
        topics.levels_of(name[1:])
    elif not topics.is_subscription(name):  # a subscription gets a better error from the daemon
        names.split(name)
