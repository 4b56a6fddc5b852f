"""Refuses definitions that contradict existing ones."""

from typing import TYPE_CHECKING, Any

from qmgr_protocol import name as names
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue import attributes, route, system
from qmgrd.core.catalogue.attribute import ALIAS_OF
from qmgrd.core.catalogue.named import Alias

if TYPE_CHECKING:
    from qmgrd.core.catalogue.catalogue import Catalogue


def check_alias(catalogue: "Catalogue", name: str, target: str) -> None:
    """Raises VALUE_INVALID if the alias *name* of *target* would create an alias of an alias."""
    known = catalogue.queues.get(target)
    fault = ""
    if isinstance(known, Alias):
        fault = f"{target} is itself an alias of {known.target}; use that name instead"
    if (other := catalogue.aliases.first_of(name)) is not None:
        fault = f"{name} cannot become an alias because {other} is an alias of {name}"
    if fault:
        raise RequestError(ErrorCode.VALUE_INVALID, f"queues.{name}.{ALIAS_OF}: {fault}")


def check_new(
    catalogue: "Catalogue", own: str, name: str, given: dict[str, Any], kind: str
) -> None:
    """Raises an error if a new queue *name* conflicts with existing definitions at *own*."""
    if kind == "remote":
        target, manager = names.split(name)
        if manager == own:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"{name} belongs to this queue manager itself: use {target}",
            )
        route.link_to(catalogue, manager)
    else:
        system.check_free(name)
    if kind == "alias":
        check_alias(catalogue, name, given[ALIAS_OF])
    catalogue.check_room()
    if kind == "local":
        attributes.check_in_force(name, given, catalogue.templates.of(name))


def check_same(name: str, known: dict[str, Any], given: dict[str, Any]) -> None:
    """Raises QUEUE_EXISTS if the attributes of the *known* row differ from those *given*."""
    if not attributes.is_same(known, given):
        old = attributes.own_of(known)
        raise RequestError(
            ErrorCode.QUEUE_EXISTS, f"queue {name} exists with other attributes: {old or '{}'}"
        )
