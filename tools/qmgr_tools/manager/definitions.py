"""The definitions of a queue manager, and the file that contains them.

    [links.NYC]
    addresses = ["nyc.example:7470"]

    [inbound.FRA]               # a queue manager that may open links
    store_id = "6a0f3c0d9b4e4f2f8a54c1f0b6d7e812"   # default: the first store that connects

    [templates."APP.*"]
    retry_initial_ms = "1 s"

    [queues."APP.ORDERS"]       # attributes as in PROTOCOL.md, sizes and times as in qmgrd.toml
    depth_max = 100000

    [queues."FLIGHTS@NYC"]      # a remote queue has no attributes

    [aliases]
    SALES = "APP.ORDERS"

    [roles.shops]               # roles and users: see user_definitions.py
    [users.billing]

States are not definitions: inhibits, and whether a link is stopped.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmgr_config.units import parse_bytes, parse_ms
from qmgr_protocol import name as names
from qmgr_protocol.errors import RequestError
from qmgr_protocol.limits import QUEUE_ATTRIBUTES
from qmgr_tools.cli.failure import Exit, Failure, one_line, usage
from qmgr_tools.manager import definition_value, user_definitions
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue.system import AUDIT

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

STORE_ID = re.compile("[0-9A-Fa-f]{32}")
DOTS_MAX = 32  # maximum number of dots in a name without quotes
FILE_MAX_BYTES = 16 * 1024 * 1024
TABLES = ("links", "inbound", "templates", "queues", "aliases", "roles", "users")
LINK_DEFAULTS: dict[str, Any] = {
    "connections": 1,
    "ordered": False,
    "fetch": False,
    "routes": [],
    "transit": False,
}
_PARSED = {"ms": parse_ms, "bytes": parse_bytes}
_OF_TRANSMISSION = ("depth_max", "bytes_max")


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions by name, with attributes in base units."""

    links: dict[str, dict[str, Any]] = field(default_factory=dict)  # all attributes by link
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    inbound: dict[str, str] = field(default_factory=dict)  # store id or "" by queue manager
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Tables of the file. Users and roles are only pruned if the file has their table.
    tables: frozenset[str] = field(default=frozenset(), compare=False)

    def count(self) -> int:
        """Returns the number of definitions of all kinds."""
        named = [*self.links, *self.templates, *self.queues, *self.aliases, *self.inbound]
        return len([*named, *self.roles, *self.users])


class _Fault(Exception):
    """An error in a file, with the path of the key."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


def read(path: Path) -> Definitions:
    """Returns the definitions in the file at *path*.

    Raises:
        Failure: FAILED if the file cannot be read, USAGE if it is not TOML or a definition is
            invalid. The text has the path of the key.
    """
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX_BYTES + 1)
    except OSError as error:
        raise Failure(Exit.FAILED, f"cannot read {path}", error.strerror or str(error)) from None
    if len(data) > FILE_MAX_BYTES:
        why = f"the file exceeds the limit of {FILE_MAX_BYTES:,} bytes"
        raise Failure(Exit.FAILED, f"cannot read {path}", why)
    try:
        return parsed(tomllib.loads(data.decode()))
    except (ValueError, RecursionError, _Fault) as error:
        raise usage(f"cannot apply {path}", one_line(str(error)), "nothing changed") from None


def parsed(document: Mapping[str, Any]) -> Definitions:
    """Returns the definitions in a decoded file."""
    for key in document:
        if key not in TABLES:
            raise _Fault(_key(key), _unknown(key, TABLES))
    found = Definitions(
        {name: _link(name, given) for name, given in _table(document, "links")},
        {name: _template(name, given) for name, given in _table(document, "templates")},
        {name: _queue(name, given) for name, given in _table(document, "queues")},
        {name: _alias(name, target) for name, target in _table(document, "aliases")},
        {name: _inbound(name, given) for name, given in _table(document, "inbound")},
        {name: _subject("roles", name, given) for name, given in _table(document, "roles")},
        {name: _subject("users", name, given) for name, given in _table(document, "users")},
        frozenset(document),
    )
    for name, target in found.aliases.items():
        path = f"aliases.{_key(name)}"
        if name in found.queues:
            raise _Fault(path, f"queues.{_key(name)} has the same name")
        if target in found.aliases:
            raise _Fault(path, f"the target {target} is also an alias")
    return found


def _table(document: Mapping[str, Any], table: str) -> list[tuple[str, Any]]:
    found = document.get(table, {})
    if type(found) is not dict:
        raise _Fault(table, "the value is not a table")
    for name, given in found.items():
        whole = ".".join(_dotted(name, given, is_value=table == "aliases"))
        if whole != name:
            line = f'"{whole}" = ' if table == "aliases" else f'[{table}."{whole}"]'
            why = f"a name with a dot needs quotes: {line}"
            raise _Fault(f"{table}.{_key(name)}", why)
    return list(found.items())


def _dotted(name: str, given: Any, *, is_value: bool) -> Iterator[str]:
    """Yields the parts of a name without quotes, which TOML parsed as nested tables.

    Args:
        is_value: Whether the value of the name is a string instead of a table.
    """
    yield name
    for _ in range(DOTS_MAX):
        inner = given.items() if type(given) is dict else ()
        part, given = next((x for x in inner if is_value or type(x[1]) is dict), ("", None))
        if not part:
            return
        yield part


def _key(text: str) -> str:
    """Returns a key in the syntax of TOML."""
    bare = text.replace("-", "").replace("_", "")
    return text if bare.isascii() and bare.isalnum() else f'"{text[:80]}"'


def _link(name: str, given: Any) -> dict[str, Any]:
    path = f"links.{_key(name)}"
    _checked(path, names.check, name)
    found = LINK_DEFAULTS | {"addresses": None} | _map(path, given)
    for key, value in found.items():
        if key not in LINK_DEFAULTS and key != "addresses":
            raise _Fault(f"{path}.{_key(key)}", _unknown(key, ("addresses", *LINK_DEFAULTS)))
        _check(f"{path}.{key}", definition_value.link_fault(key, value))
    return found


def _inbound(name: str, given: Any) -> str:
    path = f"inbound.{_key(name)}"
    _checked(path, names.check, name)
    for key in _map(path, given):
        if key != "store_id":
            raise _Fault(f"{path}.{_key(key)}", _unknown(key, ("store_id",)))
    store_id = given.get("store_id", "")
    if type(store_id) is not str or (store_id and not STORE_ID.fullmatch(store_id)):
        raise _Fault(f"{path}.store_id", f"{str(store_id)[:80]!r} is not 32 hexadecimal digits")
    return store_id.lower()


def _subject(table: str, name: str, given: Any) -> dict[str, Any]:
    """Returns the attributes of a user or a role."""
    path = f"{table}.{_key(name)}"
    _checked(path, names.check, name)
    is_user = table == "users"
    defaults = user_definitions.USER_DEFAULTS if is_user else user_definitions.ROLE_DEFAULTS
    known = (*defaults, "verifier") if is_user else tuple(defaults)
    for key, value in _map(path, given).items():
        if key not in known:
            raise _Fault(f"{path}.{_key(key)}", _unknown(key, known))
        _check(f"{path}.{key}", user_definitions.user_fault(key, value))
    return user_definitions.normal(given, defaults)


def _template(pattern: str, given: Any) -> dict[str, Any]:
    path = f"templates.{_key(pattern)}"
    _check(path, definition_value.pattern_fault(pattern))
    return _values(path, pattern, _map(path, given), tuple(QUEUE_ATTRIBUTES))


def _queue(name: str, given: Any) -> dict[str, Any]:
    path = f"queues.{_key(name)}"
    target, manager = _checked(path, names.split, name)
    known = tuple(QUEUE_ATTRIBUTES)
    if manager:
        known = () if target else _OF_TRANSMISSION
    else:
        _check(path, definition_value.reserved_fault(name))
    return _values(path, name, _map(path, given), known)


def _alias(name: str, target: Any) -> str:
    path = f"aliases.{_key(name)}"
    _checked(path, names.check, name)
    _check(path, definition_value.reserved_fault(name))
    _check(path, definition_value.queue_fault(name, target))
    return str(target)


def _map(path: str, given: Any) -> dict[str, Any]:
    if type(given) is not dict:
        raise _Fault(path, "the value is not a table")
    return given


def _check(path: str, fault: str) -> None:
    if fault:
        raise _Fault(path, fault)


def _values(
    path: str, owner: str, given: Mapping[str, Any], known: tuple[str, ...]
) -> dict[str, Any]:
    """Returns the values *given* for the queue or template *owner*, checked and in base units."""
    found = {}
    for key, value in given.items():
        if key not in known:
            raise _Fault(f"{path}.{_key(key)}", _unknown(key, known))
        parse = _PARSED.get(QUEUE_ATTRIBUTES[key].quantity)
        try:
            found[key] = parse(value) if parse and isinstance(value, str) else value
        except ValueError as error:
            raise _Fault(f"{path}.{key}", str(error)) from None
        _check(f"{path}.{key}", definition_value.attribute_fault(owner, key, found[key]))
    return found


def _unknown(key: str, known: tuple[str, ...]) -> str:
    """Returns an error about the unknown *key*, with a suggestion."""
    from difflib import get_close_matches  # The import would slow down --help.

    similar = get_close_matches(key.lower(), known, n=1)
    near = f"; did you mean {similar[0]}?" if similar else ""
    return f"unknown key{near or '; known keys: ' + (', '.join(known) or 'none')}"


def _checked(path: str, check: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of *check*. An error names the *path*."""
    try:
        return check(*arguments)
    except RequestError as error:
        raise _Fault(path, error.text) from None


def of_manager(client: "Client", *, with_secrets: bool = True) -> Definitions:
    """Returns the definitions of the queue manager of *client*, as far as its user may see them.

    Args:
        client: The client.
        with_secrets: Whether the users have their verifiers.
    """
    users, roles = user_definitions.of_manager(client, with_secrets=with_secrets)
    found = Definitions(users=users, roles=roles)
    listed = client.admin.link_list()
    for link in listed["links"]:
        found.links[link["link"]] = {
            key: link.get(key, default)
            for key, default in ({"addresses": []} | LINK_DEFAULTS).items()
        }
    for peer in listed.get("allowed", ()):
        found.inbound[peer["peer"]] = peer["store_id"]
    for template in client.admin.template_list():
        found.templates[template["pattern"]] = dict(template["attributes"])
    queues: Sequence[Mapping[str, Any]] = client.admin.queue_list()
    for row in queues:
        given = {key: row[key] for key in row["given"]}
        if row["kind"] == "alias":
            found.aliases[row["queue"]] = row["alias_of"]
        elif row["queue"] == AUDIT:
            continue  # No request can define it.
        elif given or row["kind"] != "transmission":
            found.queues[row["queue"]] = given
    return found


def text(found: Definitions) -> str:
    """Returns the text of a file with the definitions *found*."""
    import tomlkit  # The import takes 40 ms.

    document: dict[str, Any] = {
        "links": {
            name: {key: value for key, value in given.items() if LINK_DEFAULTS.get(key) != value}
            for name, given in found.links.items()
        },
        "inbound": {
            name: {"store_id": store_id} if store_id else {}
            for name, store_id in found.inbound.items()
        },
        "templates": {name: _with_units(given) for name, given in found.templates.items()},
        "queues": {name: _with_units(given) for name, given in found.queues.items()},
        "aliases": found.aliases,
        "roles": user_definitions.without_defaults(found.roles, user_definitions.ROLE_DEFAULTS),
        "users": user_definitions.without_defaults(found.users, user_definitions.USER_DEFAULTS),
    }
    return tomlkit.dumps({table: names_ for table, names_ in document.items() if names_})


def _with_units(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns attributes with sizes and durations as text."""
    return {
        name: queue_attribute.value_text(name, value)
        if QUEUE_ATTRIBUTES[name].quantity in _PARSED
        else value
        for name, value in given.items()
    }
