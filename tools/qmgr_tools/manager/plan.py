"""What is to be done at a queue manager so that it has what a file defines, in an order that works.

Links come before the queues that lead over them, and queues before their aliases; what is to go
goes in the opposite order. Nothing is touched that the file does not name, unless it is pruned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qmgr_tools.cli.humanize import messages
from qmgr_tools.manager.definitions import LINK_DEFAULTS, Definitions
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue import backout
from qmgrd.core.catalogue import system

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

_SAID_HERE = (
    "addresses",
    "connections",
    "ordered",
    "fetch",
    "routes",
    "transit",
    "alias_of",
    "store_id",
)
_DELETED = {"alias": "queue"}  # as what else it is deleted


@dataclass(frozen=True, slots=True)
class Step:
    """One change: what it does to what, and how it is done."""

    action: str  # create, alter, delete
    kind: str  # link, inbound, template, queue, alias
    name: str
    changed: dict[str, list[Any]]  # attribute to [before, after]; None: the default
    method: str  # of client.admin
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)  # arguments, too

    def do(self, client: "Client") -> None:
        """Do it.

        Raises:
            RequestError: the queue manager refuses it.
        """
        getattr(client.admin, self.method)(*self.arguments, **self.named)

    def words(self) -> str:
        """Return what it does, in words."""
        told = "; ".join(_words(self.changed))
        return f"{self.action} {self.kind} {self.name}{': ' * bool(told)}{told}"

    def row(self) -> dict[str, Any]:
        """Return what it does, for scripts."""
        return {
            "action": self.action,
            "kind": self.kind,
            "name": self.name,
            "changed": self.changed,
        }


def _words(changed: dict[str, list[Any]]) -> Iterator[str]:
    yield from queue_attribute.changes(changed)
    for key in _SAID_HERE:
        if key in changed:
            before, after = (_listed(value) for value in changed[key])
            yield f"{key.replace('_', ' ')} {before + ' -> ' if before else ''}{after}"


def _listed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value or "")


def conflicts(wanted: Definitions, there: Definitions) -> Iterator[str]:
    """Yield what stands in the way, which the queue manager would refuse half way through."""
    links = wanted.links.keys() | there.links.keys()
    for name in wanted.queues:
        manager = name.partition("@")[2]
        if manager and manager not in links:
            yield f'queues."{name}": there is no link {manager}'
        if name in there.aliases:
            yield f'queues."{name}": there is an alias of that name, which has to be deleted first'
    aliases = there.aliases | wanted.aliases
    for name, target in wanted.aliases.items():
        if name in there.queues:
            yield f'aliases."{name}": there is a queue of that name, which has to be deleted first'
        if target in aliases:
            yield f'aliases."{name}": {target} is an alias itself, of {aliases[target]}'


def steps(wanted: Definitions, there: Definitions) -> Iterator[Step]:
    """Yield what makes of what is *there* what is *wanted*, but for deletions."""
    for name, attributes in wanted.links.items():
        yield from _link(name, attributes, there.links.get(name))
    for name, store_id in wanted.inbound.items():
        yield from _inbound(name, store_id, there.inbound.get(name))
    for pattern, given in wanted.templates.items():
        yield from _template(pattern, given, there.templates.get(pattern))
    for name in sorted(wanted.queues, key=lambda name: ("@" in name, name)):
        yield from _queue(name, wanted.queues[name], there.queues.get(name))
    for name, target in wanted.aliases.items():
        yield from _alias(name, target, there.aliases.get(name))


def _link(name: str, after: dict[str, Any], before: dict[str, Any] | None) -> Iterator[Step]:
    changed = _changed(LINK_DEFAULTS if before is None else before, after)
    if before is None:
        yield Step("create", "link", name, changed, "link_create", (name,), after)
    elif changed:
        new = {key: after[key] for key in changed}
        yield Step("alter", "link", name, changed, "link_alter", (name,), new)


def _inbound(name: str, after: str, before: str | None) -> Iterator[Step]:
    if before is None or (after and after != before):
        action = "create" if before is None else "alter"
        changed: dict[str, list[Any]] = {"store_id": [before or "", after]} if after else {}
        yield Step(action, "inbound", name, changed, "link_allow", (name, bytes.fromhex(after)))


def _template(
    pattern: str, after: Mapping[str, Any], before: Mapping[str, Any] | None
) -> Iterator[Step]:
    if after != before:
        action = "create" if before is None else "alter"
        changed = _changed(before or {}, after)
        yield Step(action, "template", pattern, changed, "template_set", (pattern,), after)


def _queue(name: str, after: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Step]:
    changed = _changed(before or {}, after)
    values = {key: value for key, (_, value) in changed.items()}
    is_there = before is not None or _is_given(name)
    if is_there and changed:
        yield Step("alter", "queue", name, changed, "queue_alter", (name,), values)
    elif not is_there:
        yield Step("create", "queue", name, changed, "queue_create", (name,), after)


def _is_given(name: str) -> bool:
    """Return whether the queue manager has the queue by itself, as soon as it is named."""
    return name.startswith("@") or (name.startswith(system.PREFIX) and "@" not in name)


def _alias(name: str, after: str, before: str | None) -> Iterator[Step]:
    given, changed = {"alias_of": after}, {"alias_of": [before, after]}
    if before is None:
        yield Step("create", "alias", name, changed, "queue_create", (name,), given)
    elif before != after:
        yield Step("alter", "alias", name, changed, "queue_alter", (name,), given)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {
        key: [before.get(key), after.get(key)]
        for key in (*after, *(key for key in before if key not in after))
        if before.get(key) != after.get(key)
    }


def prunings(
    wanted: Definitions, there: Definitions, depths: dict[str, int]
) -> tuple[list[Step], list[str]]:
    """Return what deletes what is *there* and not *wanted*; and what stays that holds messages.

    Args:
        depths: by name of the queue, how many messages are on it.
    """
    gone: list[Step] = []
    kept: list[str] = []
    for name in sorted(there.aliases.keys() - wanted.aliases.keys()):
        gone.append(_deleted("alias", name))
    used = {name.partition("@")[2] for name in wanted.queues}
    for name in sorted(
        there.queues.keys() - wanted.queues.keys(), key=lambda name: ("@" not in name, name)
    ):
        if _is_given(name):
            continue
        if depths.get(name):
            kept.append(f"queue {name} holds {messages(depths[name])}")
            continue
        gone.append(_deleted("queue", name))
    for name in sorted(there.templates.keys() - wanted.templates.keys()):
        gone.append(_deleted("template", name))
    for name in sorted(there.links.keys() - wanted.links.keys() - used):
        if depths.get(f"@{name}"):
            kept.append(f"link {name} holds {messages(depths[f'@{name}'])}")
            continue
        gone.append(_deleted("link", name))
    for name in sorted(there.inbound.keys() - wanted.inbound.keys()):
        gone.append(Step("delete", "inbound", name, {}, "link_disallow", (name,)))
    return gone, kept


def backout_queues_missing(
    wanted: Definitions, there: Definitions, done: list[Step]
) -> Iterator[str]:
    """Yield the backout queues that *wanted* names, and that are not there after *done*."""
    gone = {
        step.name
        for step in done
        if step.action == "delete" and step.kind not in ("link", "inbound")
    }
    queues = (there.queues.keys() - gone) | wanted.queues.keys()
    aliases = {name: of for name, of in there.aliases.items() if name not in gone}
    given = [*wanted.queues.values(), *wanted.templates.values()]
    yield from backout.missing(given, queues, aliases | wanted.aliases)


def _deleted(kind: str, name: str) -> Step:
    return Step("delete", kind, name, {}, f"{_DELETED.get(kind, kind)}_delete", (name,))
