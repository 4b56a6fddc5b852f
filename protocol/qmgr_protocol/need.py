"""The rights that a request needs, and the objects that its fields name.

Each request declares its needs next to its fields (messages.py). The daemon's check, the table of
rights in PROTOCOL.md and the matrix of tests are derived from these declarations.

    Need(Right.PUT, Kind.DESTINATION, "queue")   the right to put on the object named in *queue*
    Need(Right.PURGE, Kind.QUEUE, "queue", when="purge")   needed only if *purge* is true
    Need(Right.SHOW)                             the right to show the queue manager itself
"""

from enum import Enum
from typing import NamedTuple


class Right(Enum):
    """A right that can be granted to a user or a role."""

    CONNECT = "connect"  # Every user has this right. It is never granted.
    PUT = "put"
    GET = "get"
    BROWSE = "browse"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    SHOW = "show"
    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    PURGE = "purge"
    MOVE = "move"
    REPUBLISH = "republish"
    LINK = "link"  # to open a link's stream as the queue manager of the name
    FETCH = "fetch"  # to fetch the messages that wait for the queue manager of the name
    FORWARD = "forward"  # to send messages that the queue manager of the name created
    HISTORY = "history"
    EXPORT = "export"
    SNAPSHOT = "snapshot"
    ADMIN = "admin"


class Kind(Enum):
    """A kind of object. A right is granted on the objects of one kind whose names match a pattern.

    A field of kind DESTINATION names a queue, or a topic if it begins with /. A field of kind
    SOURCE names a queue, or a subscription if it contains a colon. So the kind of the object
    depends on the name, and no right is granted on these two kinds.
    """

    MANAGER = "manager"  # the queue manager itself, which has no name
    QUEUE = "queue"
    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    TEMPLATE = "template"
    LINK = "link"
    CURSOR = "cursor"
    PEER = "peer"  # another queue manager
    USER = "user"
    ROLE = "role"
    DESTINATION = "destination"
    SOURCE = "source"


class Audited(Enum):
    """How the audit records the requests that need a right."""

    NO = "no"  # not at all: they are too many, or they only show definitions
    READS = "reads"  # only those of operators, counted as below
    COUNTED = "counted"  # the first of a minute; equal ones are counted
    EACH = "each"  # one record for each request


# How the audit records requests, by the right that they need. Each request with any other right has
# a record, so that a new right cannot be forgotten here.
_AUDITED = {
    **dict.fromkeys((Right.CONNECT, Right.PUT, Right.PUBLISH, Right.SUBSCRIBE), Audited.NO),
    **dict.fromkeys((Right.SHOW, Right.LINK, Right.FETCH), Audited.NO),
    **dict.fromkeys((Right.GET, Right.BROWSE), Audited.READS),
    **dict.fromkeys((Right.HISTORY, Right.EXPORT), Audited.COUNTED),
}


def audited(right: Right) -> Audited:
    """Returns how the audit records a request that needs *right*."""
    return _AUDITED.get(right, Audited.EACH)


EACH = "*"  # The request lists objects, and shows only those on which the user has the right.


class Need(NamedTuple):
    """A right that a request needs on an object.

    Invariant: ``field`` is empty exactly if ``kind`` is MANAGER or PEER. The peer is the queue
    manager at the other end of the connection.
    """

    right: Right
    kind: Kind = Kind.MANAGER
    field: str = ""  # field with the name or names of the object; "attributes.x" is an attribute
    when: str = ""  # flag without which the right is not needed; empty if it is always needed
    or_all: bool = False  # True if an empty field stands for all objects of the kind
    through: bool = False  # True if an alias counts as its queue, whatever the right


def _granted(*, manager: str, **kinds: str) -> dict[str, tuple[Right, ...]]:
    return {
        kind: tuple(Right(right) for right in rights.split())
        for kind, rights in {"manager": manager, **kinds}.items()
    }


# The kinds of objects on which rights can be granted, with the rights that exist for each. Users
# and roles are not among them: otherwise a user could give itself further rights. Only the built-in
# role of administrators has rights on users and roles.
GRANTED_KINDS = _granted(
    manager="show admin history snapshot",
    queue="put get browse show create alter delete purge move",
    topic="publish subscribe show create delete",
    subscription="get browse show create alter delete purge move republish",
    template="show create delete",
    link="show create alter delete purge admin",
    cursor="export delete show",
    peer="link fetch forward",
)
GRANTED_RIGHTS = tuple(right.value for right in Right if right is not Right.CONNECT)
