"""Makes links send in rotation.

The next turn starts with the first link for which this turn had no time.
"""

from collections.abc import Mapping

from qmgrd.core.context.context import Context
from qmgrd.core.link.link import Link


class LinkRotation:
    """The order in which links send."""

    def __init__(self, context: Context, links: Mapping[str, Link]) -> None:
        self._context = context
        self._links = links
        self._last = ""  # the name of the link that sent last

    def run(self) -> None:
        """Makes links send their messages in the order of their names, starting after the last
        sender.
        """
        awake = self._context.awake_queues
        if not awake:
            return
        links = [link for link in self._links.values() if link.queue.id in awake]
        if len(links) > 1:
            links.sort(key=lambda link: (link.name <= self._last, link.name))
        for at, link in enumerate(links):
            if at and self._context.budget.is_over:
                return
            self._last = link.name
            del awake[link.queue.id]
            if self._context.begin_work("link", link.name):
                link.pump.run()
