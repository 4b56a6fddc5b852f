"""The limits of a user, as options and as lines with their present use."""

from collections.abc import Iterator, Mapping
from typing import Any

from qmgr_protocol.limits import USER_LIMITS
from qmgr_tools.cli import humanize, output
from qmgr_tools.queue import attribute

PANELS = {
    "Limits (0: unlimited)": {
        "connections_max": "Maximum number of open connections",
        "streams_max": "Maximum number of open streams: producers, and streams of links",
        "producers_max": "Maximum number of remembered producers",
        "consumers_max": "Maximum number of consumers and waiting gets",
        "queues_max": "Maximum number of queues that the user creates",
        "subscriptions_max": "Maximum number of subscriptions that the user creates",
        "stored_bytes_max": "Maximum size of all messages on these queues and subscriptions",
        "puts_per_s_max": "Maximum number of messages put in a second; more are delayed",
        "put_bytes_per_s_max": "Maximum size of the messages put in a second; more are delayed",
        "unread_bytes_max": "Maximum size of unread replies; at the limit, requests are delayed",
    }
}


def options(*, takes_default: bool) -> tuple[Any, ...]:
    """Returns the options of all limits for a command. An omitted option is None."""
    return attribute.options(takes_default=takes_default, attributes=USER_LIMITS, panels=PANELS)


COLUMNS = tuple(
    output.text(name, name.removesuffix("_max").replace("_", " ")) for name in USER_LIMITS
)


def lines(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns each limit in force with the present use, for COLUMNS. Omits limits with neither."""
    return dict(_lines(row))


def _lines(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, limit in row["limits"].items():
        text = _text(name)
        used = row["use"].get(name.removesuffix("_max"))
        if limit and used is not None:
            yield name, f"{text(used)} of {text(limit)}"
        elif limit:
            yield name, f"at most {text(limit)}"
        elif used:
            yield name, text(used)


def _text(name: str) -> Any:
    is_size = USER_LIMITS[name].quantity == "bytes"
    return humanize.size if is_size else "{:,}".format
