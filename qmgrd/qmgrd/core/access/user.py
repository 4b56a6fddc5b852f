"""The stored row of a user, and of a role."""

from dataclasses import dataclass, field, replace
from typing import Any

from qmgr_protocol import verifier as verifiers
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.limits import USER_LIMITS
from qmgr_protocol.verifier import Verifier
from qmgrd.core.access import grant as grants_
from qmgrd.core.access.grant import Grant
from qmgrd.core.access.user_limits import check_value
from qmgrd.core.layout.owner import owner_of

ROLES_MAX = 32  # roles of one user
GRANTS_MAX = 1_000  # grants of one user or role
_LIMITS = "limits"  # a field of the row that exists only if limits differ from the defaults
_FIELDS = ("verifier", "roles", "grants", "enabled", "created_us", "altered_us")
_QUEUE_MANAGER, _NUMBER = "queue_manager", "number"  # fields of later versions, left out if empty


@dataclass(frozen=True, slots=True)
class User:
    """A user, or a role: a role has neither a verifier nor roles."""

    name: str
    verifier: Verifier | None = None  # None if the user cannot log in with a password
    roles: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    is_enabled: bool = True
    created_us: int = 0
    altered_us: int = 0  # time of the last change of the verifier
    queue_manager: str = ""  # the only queue manager as which the user may open links; "" for any
    number: int = 0  # never used again; 0 if an older version created the user
    more: dict[str, Any] = field(default_factory=dict)  # fields of a newer version
    limits: dict[str, int] = field(default_factory=dict)  # limits that differ from the defaults

    def encode(self) -> bytes:
        """Returns the stored row."""
        values = (
            "" if self.verifier is None else str(self.verifier),
            list(self.roles),
            [grant.encode() for grant in self.grants],
            self.is_enabled,
            self.created_us,
            self.altered_us,
        )
        later = {_QUEUE_MANAGER: self.queue_manager, _NUMBER: self.number, _LIMITS: self.limits}
        found = dict(zip(_FIELDS, values, strict=True))
        row: bytes = pack(self.more | found | {key: value for key, value in later.items() if value})
        return row

    @property
    def owner(self) -> str:
        """The text by which jobs, subscriptions, producers and sessions refer to this user.

        A user that is deleted and created again is another owner.
        """
        return owner_of(self.name, self.number)

    def with_grants(self, added: list[Grant]) -> "User":
        """Returns the user with further grants. A grant exists only once."""
        return replace(self, grants=tuple(dict.fromkeys((*self.grants, *added))))

    def without_grants(self, removed: list[Grant]) -> "User":
        """Returns the user without these grants."""
        return replace(self, grants=tuple(x for x in self.grants if x not in removed))


def decode(name: str, row: bytes) -> User:
    """Returns the user *name* whose stored row is *row*.

    Raises:
        ValueError, TypeError, RequestError: The row is invalid.
    """
    facts = unpack(row)
    if type(facts) is not dict:
        raise ValueError("not a map")
    verifier, roles, grants, enabled, created_us, altered_us = [
        facts.pop(key, None) for key in _FIELDS
    ]
    limits = facts.pop(_LIMITS, {})
    queue_manager, number = facts.pop(_QUEUE_MANAGER, ""), facts.pop(_NUMBER, 0)
    if type(queue_manager) is not str or type(number) is not int:
        raise ValueError("the queue manager or the number is invalid")
    if type(created_us) is not int or type(altered_us) is not int or type(enabled) is not bool:
        raise ValueError("a time or a flag is invalid")
    if not all(type(role) is str for role in roles):
        raise ValueError("a role is not a string")
    if type(limits) is not dict or not limits.keys() <= USER_LIMITS.keys():
        raise ValueError("a limit is invalid")
    return User(
        name,
        verifiers.parse(verifier) if verifier else None,
        tuple(roles),
        grants_.decode(grants),
        enabled,
        created_us,
        altered_us,
        queue_manager,
        number,
        facts,
        {key: check_value(name, key, value) for key, value in limits.items()},
    )
