"""Names of topics and of subscriptions as people type them."""

from qmgr_protocol.topic import MARK, check_subscription, is_subscription
from qmgr_tools.cli import output

ELSEWHERE = ("*", "**", ">")  # wildcards of others; here they are words


def bare(topic: str) -> str:
    """Return a topic, or a filter, without the mark that it has where it is a destination."""
    return topic.removeprefix(MARK)


def note_wildcards(filter_: str) -> None:
    """Tell people who brought the wildcards of another system along."""
    level = next((level for level in filter_.split(MARK) if level in ELSEWHERE), "")
    if level:
        output.note(
            f"note: {level} is no wildcard: + is any one level, # at the end all that follow"
        )


def subscription(name: str) -> str:
    """Return *name*, which is to be that of a subscription.

    Raises:
        RequestError: NAME_INVALID, that of a queue, say.
    """
    return name if is_subscription(name) else check_subscription(name)
