"""The attributes of subscriptions as qmctl takes and shows them: those of queues, and their own."""

from typing import Any

from qmgr_protocol.limits import SUBSCRIPTION_ATTRIBUTES
from qmgr_tools.cli import output
from qmgr_tools.queue import attribute as queue_attribute
from qmgrd.core.catalogue.attribute import said

_OWN = {
    "redelivery_limit": "How often what fails comes again; else as its topic has it",
    "overflow": "What a full one does",
}


def _panels() -> dict[str, dict[str, str]]:
    """Return what each attribute means, by section of the help: as of queues, but for its own."""
    found = {
        panel.partition(" and ")[0]: {
            name: _OWN.get(name, about)
            for name, about in names.items()
            if name in SUBSCRIPTION_ATTRIBUTES
        }
        for panel, names in queue_attribute.PANELS.items()
    }
    found["Retries"] = {"redelivery_limit": _OWN["redelivery_limit"]} | found["Retries"]
    return found


PANELS = _panels()


def _column(name: str) -> output.Column:
    if name == "redelivery_limit":
        return output.Column(name, said(name).upper(), _redeliveries, is_number=True)
    return queue_attribute.column(name, SUBSCRIPTION_ATTRIBUTES)


def _redeliveries(limit: int) -> str:
    """Return how often something is delivered again; less than nothing leaves it to the topic."""
    return "the topic's" if limit < 0 else str(limit)


SECTIONS = {panel: tuple(map(_column, names)) for panel, names in PANELS.items()}
COLUMNS = tuple(column for columns in SECTIONS.values() for column in columns)


def options(*, takes_default: bool) -> Any:
    """Return the options of all attributes, for a command; None where one is not given."""
    return queue_attribute.options(
        takes_default=takes_default, attributes=SUBSCRIPTION_ATTRIBUTES, panels=PANELS
    )
