"""The attributes of subscriptions as options and columns, based on those of queues."""

from typing import Any

from qmgr_protocol.limits import SUBSCRIPTION_ATTRIBUTES
from qmgr_tools.cli import output
from qmgr_tools.queue import attribute as queue_attribute

_OWN = {
    "redelivery_limit": "Redeliveries before parking; default: the topic's limit",
    "delivery_limit": "Returns without a failure before parking; 0: never",
    "overflow": "Effect of a publication if the subscription is full",
}


def _panels() -> dict[str, dict[str, str]]:
    """Returns the meaning of each attribute by section, with texts that differ from queues."""
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
        title = queue_attribute.label(name).upper()
        return output.Column(name, title, _redeliveries, is_number=True)
    return queue_attribute.column(name, SUBSCRIPTION_ATTRIBUTES)


def _redeliveries(limit: int) -> str:
    """Returns the redelivery limit as text. A negative limit stands for the topic's limit."""
    return "the topic's" if limit < 0 else str(limit)


SECTIONS = {panel: tuple(map(_column, names)) for panel, names in PANELS.items()}
COLUMNS = tuple(column for columns in SECTIONS.values() for column in columns)


def options(*, takes_default: bool) -> Any:
    """Returns the options of all attributes for a command. An omitted option is None."""
    return queue_attribute.options(
        takes_default=takes_default, attributes=SUBSCRIPTION_ATTRIBUTES, panels=PANELS
    )
