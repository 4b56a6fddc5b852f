"""The limits of users that have no limits of their own."""

from typing import Annotated

from qmgr_config.quantity import count, in_bytes
from qmgr_config.section import Section


class UserDefaults(Section):
    """[user_defaults]"""

    connections_max: Annotated[int, count(0, 100_000)] = 0
    """The maximum number of open connections of a user. 0 is unlimited, as below."""

    streams_max: Annotated[int, count(0, 10_000_000)] = 0
    """The maximum number of open streams of a user: producers, and streams of links."""

    producers_max: Annotated[int, count(0, 10_000_000)] = 10_000
    """The maximum number of remembered producers of a user."""

    consumers_max: Annotated[int, count(0, 10_000_000)] = 0
    """The maximum number of consumers and waiting gets of a user."""

    queues_max: Annotated[int, count(0, 1_000_000)] = 0
    """The maximum number of queues that a user may create."""

    subscriptions_max: Annotated[int, count(0, 1_000_000)] = 0
    """The maximum number of subscriptions that a user may create."""

    stored_bytes_max: Annotated[int, in_bytes(0, "16 TiB")] = 0
    """The maximum size of all messages on queues and subscriptions that a user created."""

    puts_per_s_max: Annotated[int, count(0, 1_000_000_000)] = 0
    """The maximum number of messages that a user may put in a second. More are delayed."""

    put_bytes_per_s_max: Annotated[int, in_bytes(0, "1 TiB")] = 0
    """The same limit in bytes."""

    unread_bytes_max: Annotated[int, in_bytes(0, "1 TiB")] = 0
    """The maximum size of unread replies of a user. At the limit, its connections are delayed."""
