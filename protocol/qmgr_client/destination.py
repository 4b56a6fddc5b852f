"""What a put may name: a queue, one elsewhere, or with / in front a topic."""

from qmgr_protocol import name as names
from qmgr_protocol import topic as topics


def check(name: str) -> None:
    """Raise RequestError NAME_INVALID or TOPIC_INVALID where *name* can be no destination."""
    if topics.is_topic(name):
        topics.levels_of(name[1:])
    elif not topics.is_subscription(name):  # Of that the queue manager has more to say.
        names.split(name)
