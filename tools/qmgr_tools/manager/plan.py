"""Computes the steps that make a queue manager match a file of definitions.

Links come before the queues that use them, and queues before their aliases. Users come last,
because the first user ends connections without a login. Deletions are in the opposite order.
Objects that the file does not name do not change unless they are pruned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qmgr_tools.cli.humanize import messages
from qmgr_tools.manager import user_definitions
from qmgr_tools.manager.definitions import LINK_DEFAULTS, Definitions
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue import backout, system

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

_OTHER_KEYS = (  # attributes of objects other than queues
    "addresses",
    "connections",
    "ordered",
    "fetch",
    "routes",
    "transit",
    "alias_of",
    "store_id",
    "roles",
    "grants",
    "enabled",
    "queue_manager",
    "password",
)
_DELETED = {"alias": "queue"}  # kinds whose objects are deleted with the method of another kind


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One change of a definition."""

    action: str  # create, alter or delete
    kind: str  # link, inbound, template, queue, alias, role or user
    name: str
    changed: dict[str, list[Any]]  # [before, after] by attribute; None stands for the default
    method: str  # name of the method of client.admin
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)  # keyword arguments
    further: tuple[user_definitions.Call, ...] = ()  # requests that follow the first one

    def do(self, client: "Client") -> None:
        """Runs the step.

        Raises:
            RequestError: If the queue manager refuses the step.
        """
        for method, arguments, named in ((self.method, self.arguments, self.named), *self.further):
            getattr(client.admin, method)(*arguments, **named)

    def words(self) -> str:
        """Returns the step in words."""
        changes = "; ".join(_words(self.changed))
        return f"{self.action} {self.kind} {self.name}{': ' * bool(changes)}{changes}"

    def row(self) -> dict[str, Any]:
        """Returns the step for scripts."""
        return {
            "action": self.action,
            "kind": self.kind,
            "name": self.name,
            "changed": self.changed,
        }


def _words(changed: dict[str, list[Any]]) -> Iterator[str]:
    yield from queue_attribute.changes(changed)
    for key in _OTHER_KEYS:
        if key in changed:
            before, after = (_listed(value) for value in changed[key])
            yield f"{key.replace('_', ' ')} {before + ' -> ' if before else ''}{after}"


def _listed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value or "")


def conflicts(wanted: Definitions, existing: Definitions) -> Iterator[str]:
    """Yields the conflicts that would make a step fail."""
    links = wanted.links.keys() | existing.links.keys()
    for name in wanted.queues:
        manager = name.partition("@")[2]
        if manager and manager not in links:
            yield f'queues."{name}": link {manager} does not exist'
        if name in existing.aliases:
            yield f'queues."{name}": an alias with this name exists; delete it first'
    aliases = existing.aliases | wanted.aliases
    for name, target in wanted.aliases.items():
        if name in existing.queues:
            yield f'aliases."{name}": a queue with this name exists; delete it first'
        if target in aliases:
            yield f'aliases."{name}": the target {target} is also an alias'


def steps(wanted: Definitions, existing: Definitions) -> Iterator[PlanStep]:
    """Yields the steps from *existing* to *wanted*, except deletions."""
    for name, attributes in wanted.links.items():
        yield from _link(name, attributes, existing.links.get(name))
    for name, store_id in wanted.inbound.items():
        yield from _inbound(name, store_id, existing.inbound.get(name))
    for pattern, given in wanted.templates.items():
        yield from _template(pattern, given, existing.templates.get(pattern))
    for name in sorted(wanted.queues, key=lambda name: ("@" in name, name)):
        yield from _queue(name, wanted.queues[name], existing.queues.get(name))
    for name, target in wanted.aliases.items():
        yield from _alias(name, target, existing.aliases.get(name))
    for name, after in wanted.roles.items():
        before = existing.roles.get(name)
        calls = user_definitions.role_calls(name, before, after)
        yield from _subject("role", name, before, after, calls)
    unbound = user_definitions.unbound(existing.users, wanted.users)
    for name in unbound:  # A queue manager has at most one user, so the other one leaves it first.
        before = existing.users[name]
        calls = user_definitions.user_calls(name, before, before | {"queue_manager": ""})
        yield from _subject("user", name, before, before | {"queue_manager": ""}, calls)
    for name in user_definitions.in_order(wanted.users):
        before, after = existing.users.get(name), wanted.users[name]
        if before is not None and name in unbound:
            before = before | {"queue_manager": ""}
        calls = user_definitions.user_calls(name, before, after)
        yield from _subject("user", name, before, after, calls)


def _subject(
    kind: str,
    name: str,
    before: dict[str, Any] | None,
    after: dict[str, Any],
    calls: list[user_definitions.Call],
) -> Iterator[PlanStep]:
    """Yields the step for a user or a role, if any request is needed."""
    if not calls:
        return
    is_user = kind == "user"
    defaults = user_definitions.USER_DEFAULTS if is_user else user_definitions.ROLE_DEFAULTS
    changed = user_definitions.changed(before, after, defaults)
    action = "create" if before is None else "alter"
    yield PlanStep(action, kind, name, changed, *calls[0], tuple(calls[1:]))


def _link(name: str, after: dict[str, Any], before: dict[str, Any] | None) -> Iterator[PlanStep]:
    changed = _changed(LINK_DEFAULTS if before is None else before, after)
    if before is None:
        yield PlanStep("create", "link", name, changed, "link_create", (name,), after)
    elif changed:
        new = {key: after[key] for key in changed}
        yield PlanStep("alter", "link", name, changed, "link_alter", (name,), new)


def _inbound(name: str, after: str, before: str | None) -> Iterator[PlanStep]:
    if before is None or (after and after != before):
        action = "create" if before is None else "alter"
        changed: dict[str, list[Any]] = {"store_id": [before or "", after]} if after else {}
        yield PlanStep(action, "inbound", name, changed, "link_allow", (name, bytes.fromhex(after)))


def _template(
    pattern: str, after: Mapping[str, Any], before: Mapping[str, Any] | None
) -> Iterator[PlanStep]:
    if after != before:
        action = "create" if before is None else "alter"
        changed = _changed(before or {}, after)
        yield PlanStep(action, "template", pattern, changed, "template_set", (pattern,), after)


def _queue(
    name: str, after: Mapping[str, Any], before: Mapping[str, Any] | None
) -> Iterator[PlanStep]:
    changed = _changed(before or {}, after)
    values = {key: value for key, (_, value) in changed.items()}
    exists = before is not None or _is_automatic(name)
    if exists and changed:
        yield PlanStep("alter", "queue", name, changed, "queue_alter", (name,), values)
    elif not exists:
        yield PlanStep("create", "queue", name, changed, "queue_create", (name,), after)


def _is_automatic(name: str) -> bool:
    """Returns whether the queue manager creates the queue automatically."""
    return name.startswith("@") or (name.startswith(system.PREFIX) and "@" not in name)


def _alias(name: str, after: str, before: str | None) -> Iterator[PlanStep]:
    given, changed = {"alias_of": after}, {"alias_of": [before, after]}
    if before is None:
        yield PlanStep("create", "alias", name, changed, "queue_create", (name,), given)
    elif before != after:
        yield PlanStep("alter", "alias", name, changed, "queue_alter", (name,), given)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {
        key: [before.get(key), after.get(key)]
        for key in (*after, *(key for key in before if key not in after))
        if before.get(key) != after.get(key)
    }


def prunings(
    wanted: Definitions, existing: Definitions, depths: dict[str, int]
) -> tuple[list[PlanStep], list[str]]:
    """Returns the deletions of *existing* objects that are not *wanted*, and the kept objects.

    Args:
        depths: The number of messages by queue.
    """
    deletions: list[PlanStep] = []
    kept: list[str] = []
    for name in sorted(existing.aliases.keys() - wanted.aliases.keys()):
        deletions.append(_deletion("alias", name))
    used = {name.partition("@")[2] for name in wanted.queues}
    for name in sorted(
        existing.queues.keys() - wanted.queues.keys(), key=lambda name: ("@" not in name, name)
    ):
        if _is_automatic(name):
            continue
        if depths.get(name):
            kept.append(f"queue {name} holds {messages(depths[name])}")
            continue
        deletions.append(_deletion("queue", name))
    for name in sorted(existing.templates.keys() - wanted.templates.keys()):
        deletions.append(_deletion("template", name))
    for name in sorted(existing.links.keys() - wanted.links.keys() - used):
        if depths.get(f"@{name}"):
            kept.append(f"link {name} holds {messages(depths[f'@{name}'])}")
            continue
        deletions.append(_deletion("link", name))
    for name in sorted(existing.inbound.keys() - wanted.inbound.keys()):
        deletions.append(PlanStep("delete", "inbound", name, {}, "link_disallow", (name,)))
    return [*deletions, *_subjects_pruned(wanted, existing)], kept


def _subjects_pruned(wanted: Definitions, existing: Definitions) -> Iterator[PlanStep]:
    """Yields the deletions of users and roles, if the file has a table of them.

    Otherwise, a file that does not define users would delete all of them.
    """
    for kind, had, has in (
        ("user", existing.users, wanted.users),
        ("role", existing.roles, wanted.roles),
    ):
        if f"{kind}s" in wanted.tables:
            for name in sorted(had.keys() - has.keys()):
                yield _deletion(kind, name)


def backout_queues_missing(
    wanted: Definitions, existing: Definitions, done: list[PlanStep]
) -> Iterator[str]:
    """Yields the backout queues that *wanted* names but that do not exist after *done*."""
    deleted = {
        step.name
        for step in done
        if step.action == "delete" and step.kind not in ("link", "inbound")
    }
    queues = (existing.queues.keys() - deleted) | wanted.queues.keys()
    aliases = {name: of for name, of in existing.aliases.items() if name not in deleted}
    given = [*wanted.queues.values(), *wanted.templates.values()]
    yield from backout.missing(given, queues, aliases | wanted.aliases)


def _deletion(kind: str, name: str) -> PlanStep:
    return PlanStep("delete", kind, name, {}, f"{_DELETED.get(kind, kind)}_delete", (name,))
