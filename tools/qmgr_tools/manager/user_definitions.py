"""The definitions of users and roles: their checks, and the steps that make them match.

    [roles.shops]
    grants = ["put queue ORDERS.*", "publish topic orders/#"]

    [users.billing]
    roles = ["shops"]
    grants = ["get,browse queue ORDERS.*"]
    verifier = "SCRAM-SHA-256$..."   # default: the password is kept; a new user has none

    [users.EWR]
    queue_manager = "EWR"            # the only queue manager as which the user may open links

A verifier is not a password: nobody can log in with it, but a weak password can be guessed from it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from qmgr_protocol import name as names
from qmgr_protocol import verifier as verifiers
from qmgr_protocol.errors import RequestError
from qmgr_protocol.need import GRANTED_KINDS
from qmgr_tools.grant import merged

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

USER_DEFAULTS: dict[str, Any] = {"roles": [], "grants": [], "enabled": True, "queue_manager": ""}
ROLE_DEFAULTS: dict[str, Any] = {"grants": []}
ADMINISTRATOR = "administrator"
Row = dict[str, Any]
Call = tuple[str, tuple[Any, ...], Mapping[str, Any]]  # method of client.admin, and its arguments


def user_fault(key: str, value: Any) -> str:
    """Returns the reason why *value* is not valid for the attribute *key* of a user, or ""."""
    if key == "enabled":
        return "" if type(value) is bool else "the value is neither true nor false"
    if key in ("queue_manager", "verifier"):
        if type(value) is not str:
            return "the value is not a string"
        return _refused(verifiers.parse if key == "verifier" else names.check, value)
    if type(value) is not list or not all(type(item) is str for item in value):
        return "the value is not an array of strings"
    faults = (_grant_fault(item) if key == "grants" else "" for item in value)
    return next(filter(None, faults), "")


def _refused(check: Callable[[str], Any], value: str) -> str:
    try:
        check(value)
    except RequestError as error:
        return error.text
    except ValueError as error:
        return str(error)
    return ""


def _grant_fault(text: str) -> str:
    parts = text.split()
    rights, kind = parts[0].split(",") if parts else [], parts[1] if len(parts) > 1 else ""
    if kind not in GRANTED_KINDS or len(parts) != (2 if kind == "manager" else 3):
        return f"{text[:80]!r} is not RIGHT[,RIGHT...] KIND PATTERN, or RIGHT manager"
    known = [right.value for right in GRANTED_KINDS[kind]]
    wrong = [right for right in rights if right not in known]
    if wrong:
        return f"{wrong[0][:80]!r} is not a right on kind {kind}; use one of {', '.join(known)}"
    return ""


def normal(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Row:
    """Returns checked attributes with their defaults, and grants and roles in a fixed order."""
    found = dict(defaults) | dict(given)
    found["grants"] = merged_texts(
        [right, *part.split()[1:]] for part in found["grants"] for right in _rights(part)
    )
    if "roles" in found:
        found["roles"] = sorted(set(found["roles"]))
    return found


def _rights(text: str) -> list[str]:
    return text.split()[0].split(",")


def merged_texts(grants: Any) -> list[str]:
    """Returns grants [right, kind, pattern] as texts, one for each kind and pattern."""
    unique = {(right, kind, *pattern, "")[:3] for right, kind, *pattern in grants}
    return [
        " ".join(filter(None, (",".join(row["rights"]), row["kind"], row["pattern"])))
        for row in merged.rows(unique)
    ]


def of_manager(client: "Client", *, with_secrets: bool) -> tuple[dict[str, Row], dict[str, Row]]:
    """Returns the users and the roles of a queue manager, as far as the user may see them."""
    users: dict[str, Row] = {}
    for listed in client.admin.user_list():
        row: Any = listed
        if with_secrets and row["has_password"]:
            row = client.admin.user_show(row["user"], secrets=True)
        found = {key: row[key] for key in ("enabled", "queue_manager")}
        found |= {"roles": sorted(row["roles"]), "grants": merged_texts(row["grants"])}
        users[row["user"]] = found | ({"verifier": row["verifier"]} if row.get("verifier") else {})
    roles = {
        row["role"]: {"grants": merged_texts(row["grants"])}
        for row in client.admin.role_list()
        if not row["built_in"]
    }
    return users, roles


def without_defaults(found: Mapping[str, Row], defaults: Mapping[str, Any]) -> dict[str, Row]:
    """Returns the attributes that differ from the *defaults*, for a file."""
    return {
        name: {key: value for key, value in row.items() if defaults.get(key) != value}
        for name, row in found.items()
    }


def changed(before: Row | None, after: Row, defaults: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Returns the changed attributes. A verifier is never shown; a missing one changes nothing."""
    old = dict(defaults) if before is None else before
    found = {key: [old[key], after[key]] for key in defaults if old[key] != after[key]}
    if "verifier" in after and after["verifier"] != old.get("verifier"):
        found["password"] = ["set" if "verifier" in old else None, "set"]
    return found


def user_calls(name: str, before: Row | None, after: Row) -> list[Call]:
    """Returns the requests that create or alter a user."""
    attributes: dict[str, Any] = {
        key: after[key]
        for key in ("verifier", "roles", "enabled", "queue_manager")
        if key in after and (before is None or after[key] != before.get(key))
    }
    calls: list[Call] = []
    if before is None or attributes:
        method = "user_create" if before is None else "user_alter"
        calls.append((method, (name,), attributes))
    calls += _grant_calls({"user": name}, (before or {}).get("grants", []), after["grants"])
    return calls


def role_calls(name: str, before: Row | None, after: Row) -> list[Call]:
    """Returns the requests that create or alter a role."""
    calls: list[Call] = [("role_create", (name,), {})] if before is None else []
    calls += _grant_calls({"role": name}, (before or {}).get("grants", []), after["grants"])
    return calls


def _grant_calls(subject: Mapping[str, str], before: list[str], after: list[str]) -> Iterator[Call]:
    """Yields the requests that revoke and grant rights. Rights that stay are not revoked."""
    for method, one, other in (("grant_delete", before, after), ("grant_create", after, before)):
        kept = {(right, *text.split()[1:]) for text in other for right in _rights(text)}
        for text in one:
            objects = text.split()[1:]
            rights = [right for right in _rights(text) if (right, *objects) not in kept]
            if rights:
                yield method, (rights, *objects), subject


def unbound(existing: Mapping[str, Row], wanted: Mapping[str, Row]) -> list[str]:
    """Returns the *wanted* users whose queue manager another user gets, in a fixed order."""
    taken = {row["queue_manager"]: name for name, row in wanted.items() if row["queue_manager"]}
    known = {name: existing[name]["queue_manager"] for name in wanted if name in existing}
    return sorted(name for name, manager in known.items() if taken.get(manager, name) != name)


def in_order(users: Mapping[str, Row]) -> list[str]:
    """Returns the names of users: administrators first, because the first user must be one."""
    return sorted(users, key=lambda name: (ADMINISTRATOR not in users[name]["roles"], name))
