"""Roles: named sets of grants. The built-in roles cannot be changed.

The role ``operator`` has no right to read bodies of messages, but it does not protect them: a
snapshot contains all messages, and an operator may create a link to its own queue manager and move
messages over it. Give the role only to those who may read all messages.
"""

from typing import NamedTuple

from qmgr_protocol.need import GRANTED_KINDS, Kind, Right
from qmgr_protocol.topic import MANY
from qmgrd.core.access.grant import Grant

ADMINISTRATOR = "administrator"
_ALL = ("*", "SYSTEM.*", "*@*")  # all names, with those of system queues and of remote queues
_BODIES = {Right.GET, Right.BROWSE, Right.SUBSCRIBE}  # The holder can read bodies of messages.
_PEERS = {Right.LINK, Right.FETCH, Right.FORWARD}  # The holder can pass for another queue manager.


class Role(NamedTuple):
    """A named set of grants.

    A user with a role that has ``is_peer`` may open links as the queue manager of the user's name.
    """

    name: str
    grants: tuple[Grant, ...] = ()
    is_peer: bool = False


def _everywhere(right: Right, kind: Kind) -> list[Grant]:
    if kind is Kind.MANAGER:
        return [Grant(right, kind)]
    patterns = (MANY,) if kind is Kind.TOPIC else _ALL
    return [Grant(right, kind, pattern) for pattern in patterns]


def _all_of(rights: set[Right]) -> tuple[Grant, ...]:
    return tuple(
        grant
        for kind, possible in GRANTED_KINDS.items()
        for right in possible
        if right in rights
        for grant in _everywhere(right, Kind(kind))
    )


_PUTS = (Grant(Right.PUT, Kind.QUEUE, "*"), Grant(Right.PUBLISH, Kind.TOPIC, MANY))

BUILT_IN = {
    role.name: role
    for role in (
        # Administrators have all rights without grants, also on users and roles.
        Role(ADMINISTRATOR),
        Role("operator", _all_of(set(Right) - _BODIES - _PEERS)),
        Role("monitor", _all_of({Right.SHOW})),
        Role("producer", _PUTS),
        Role(
            "consumer",
            (
                Grant(Right.GET, Kind.QUEUE, "*"),
                Grant(Right.BROWSE, Kind.QUEUE, "*"),
                Grant(Right.SUBSCRIBE, Kind.TOPIC, MANY),
                Grant(Right.CREATE, Kind.SUBSCRIPTION, "*"),
                Grant(Right.GET, Kind.SUBSCRIPTION, "*"),
                Grant(Right.DELETE, Kind.SUBSCRIPTION, "*"),
            ),
        ),
        Role("peer", _PUTS, is_peer=True),
    )
}
