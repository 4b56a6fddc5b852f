"""The pass that applies changed templates to existing queues. There may be more than 10,000 queues.

A change of a template is stored immediately and applies to new queues. Existing queues follow in
slices, in the order of their names. The reply is sent after the last slice. A change during a pass
waits for the next pass, which applies all changes made in the meantime. A restart needs no pass,
because loading a queue applies its template.
"""

from collections.abc import Callable

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.limits.budget import LOOK_EACH
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.delivery import Delivery
from qmgrd.core.sessions.page import page


class TemplatePass:
    """Applies templates to all queues.

    Invariant: while a pass runs, the queues up to ``_reached`` have the templates that were in
        force at its start, or newer ones.
    """

    def __init__(self, context: Context, catalogue: Catalogue, delivery: Delivery) -> None:
        self._context = context
        self._catalogue = catalogue
        self._delivery = delivery
        self._reached = ""
        self._served: list[Callable[[], None]] = []  # the functions to call at the end of this pass
        # The functions to call at the end of the next pass.
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_busy(self) -> bool:
        """Whether a pass runs."""
        return bool(self._served)

    def start(self, done: Callable[[], None]) -> None:
        """Applies the current templates to all queues, then calls *done*."""
        if self._served:
            self._waiting.append(done)
            return
        self._served.append(done)
        self.run()

    def run(self) -> None:
        """Processes a slice: at least a few queues, and more as long as the turn has time."""
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
        if templates.of(name) is not templates.applied(name):
            self._catalogue.apply_attributes(queue)
            self._delivery.queue_altered(queue)
            self._context.count_read(1, 0)
