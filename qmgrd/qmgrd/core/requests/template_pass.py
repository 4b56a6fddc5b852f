"""The pass that holds queues to the templates: a template may be for 10,000 of them.

A change of a template is stored at once, and new queues have it. Queues that exist follow in
slices, in order of their names; then the request is answered. A change that comes during a pass
waits for the next one, which serves all that came meanwhile. A restart needs no pass: every queue
is held to the templates as it is read.
"""

from collections.abc import Callable

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.limits.budget import LOOK_EACH
from qmgrd.core.limits.page import page
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.delivery import Delivery


class TemplatePass:
    """Holds all queues to the templates.

    Invariant: while a pass runs, the queues up to ``_reached`` are held to the templates that were
    in force when it started, or to later ones.
    """

    def __init__(self, context: Context, catalogue: Catalogue, delivery: Delivery) -> None:
        self._context = context
        self._catalogue = catalogue
        self._delivery = delivery
        self._reached = ""
        self._served: list[Callable[[], None]] = []  # to be called at the end of this pass
        self._waiting: list[Callable[[], None]] = []  # at the end of the next pass

    @property
    def is_busy(self) -> bool:
        """Whether a pass runs."""
        return bool(self._served)

    def start(self, done: Callable[[], None]) -> None:
        """Hold all queues to the templates as they are now, then call *done*."""
        if self._served:
            self._waiting.append(done)
            return
        self._served.append(done)
        self.run()

    def run(self) -> None:
        """Do a slice: as much as this turn has rows and time for, and some queues at least."""
        context = self._context
        while self._served:
            names, further = page(self._catalogue.names, self._reached, LOOK_EACH)
            for name in names:
                self._hold(name)
            context.count_read(len(names), 0)
            self._reached = further or ""
            if further is None:
                served, self._served, self._waiting = self._served, self._waiting, []
                for done in served:
                    done()
            if context.rows > context.turn_rows or context.budget.is_over:
                return

    def _hold(self, name: str) -> None:
        queue, templates = self._catalogue.queues[name], self._catalogue.templates
        if not isinstance(queue, Queue) or queue.is_transmission:
            return
        if templates.of(name) is not templates.held(name):
            self._catalogue.hold(queue)
            self._delivery.queue_altered(queue)
            self._context.count_read(1, 0)
