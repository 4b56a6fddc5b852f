"""Names of topics and subscriptions as users type them."""

from qmgr_protocol.topic import MARK, check_subscription, is_subscription
from qmgr_tools.cli import output

ELSEWHERE = ("*", "**", ">")  # wildcards of other systems, which have no special meaning in qmgrd


def bare(topic: str) -> str:
    """Returns a topic or filter without the leading "/" of a destination."""
    return topic.removeprefix(MARK)


def note_wildcards(filter_: str) -> None:
    """Writes a note if a filter contains the wildcards of another system."""
    level = next((level for level in filter_.split(MARK) if level in ELSEWHERE), "")
    if level:
        output.note(
            f"note: {level} is not a wildcard: use + for one level, or a final # for all further "
            "levels"
        )


def subscription(name: str) -> str:
    """Returns *name* if it is the name of a subscription.

    Raises:
        RequestError: NAME_INVALID if *name* is invalid, for example the name of a queue.
    """
    return name if is_subscription(name) else check_subscription(name)
