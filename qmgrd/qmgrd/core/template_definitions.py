"""The templates that are defined: their rows, and the queues that they are in force for."""

from collections import Counter
from typing import Any

from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core import attributes, keys
from qmgrd.core import row as rows
from qmgrd.core.amount import amount
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.missing import no_template
from qmgrd.core.queue import Queue
from qmgrd.core.templates import TEMPLATES_MAX, Template, check_pattern, fits


class TemplateDefinitions:
    """Defines and forgets the templates of a catalogue, which holds them."""

    def __init__(self, context: Context, catalogue: Catalogue) -> None:
        self._context = context
        self._catalogue = catalogue

    def set(
        self, pattern: str, given: dict[str, Any]
    ) -> tuple[Template | None, Template, list[Queue]]:
        """Define a template for good: return it as it was and is, and the queues that have it.

        Raises:
            RequestError: NAME_INVALID, VALUE_INVALID, TEMPLATES_EXHAUSTED; nothing is changed.
        """
        check_pattern(pattern)
        templates = self._catalogue.templates
        after = Template(pattern, attributes.template_attributes(pattern, given))
        before = templates.get(pattern)
        if before is None and len(templates) >= TEMPLATES_MAX:
            raise RequestError(
                ErrorCode.TEMPLATES_EXHAUSTED,
                f"{amount(len(templates), 'template')}, at most {TEMPLATES_MAX}",
            )
        held = [queue for queue in self._catalogue.locals() if self._takes(queue, after)]
        for queue in held:
            self._catalogue.check_in_force(queue.name, after)
        templates.add(after)
        if after != before:
            rows.put(
                self._context.tx, keys.SPACE_TEMPLATE + pattern.encode(), pack(after.attributes)
            )
            self._context.wrote = True
        for queue in held:
            self._catalogue.hold(queue)
        return before, after, held

    def _takes(self, queue: Queue, template: Template) -> bool:
        """Return whether *template* is to be in force for *queue*."""
        if not fits(template.pattern, queue.name):
            return False
        known = self._catalogue.template_of(queue.name)
        return known is None or template.rank <= known.rank

    def delete(self, pattern: str) -> list[Queue]:
        """Forget a template; return the queues that had it.

        Raises:
            RequestError: NAME_INVALID; TEMPLATE_UNKNOWN; VALUE_INVALID where what is in force
                then is not for one of them. Nothing is changed.
        """
        check_pattern(pattern)
        templates = self._catalogue.templates
        if templates.get(pattern) is None:
            raise no_template(pattern, (template.pattern for template in templates))
        held = [queue for queue in self._catalogue.locals() if self._has(queue, pattern)]
        template = templates.remove(pattern)
        try:
            for queue in held:
                self._catalogue.check_in_force(queue.name, templates.of(queue.name))
        except RequestError:
            templates.add(template)
            raise
        self._context.tx.delete(keys.SPACE_TEMPLATE + pattern.encode())
        self._context.wrote = True
        for queue in held:
            self._catalogue.hold(queue)
        return held

    def _has(self, queue: Queue, pattern: str) -> bool:
        found = self._catalogue.template_of(queue.name)
        return found is not None and found.pattern == pattern

    def list(self) -> list[dict[str, Any]]:
        """Return all templates in order of their patterns, and how many queues each is for."""
        names = (queue.name for queue in self._catalogue.locals())
        held = Counter(
            found.pattern for found in map(self._catalogue.template_of, names) if found is not None
        )
        return [
            describe(template, held[template.pattern]) for template in self._catalogue.templates
        ]


def describe(template: Template, queues: int) -> dict[str, Any]:
    """Return a template's row."""
    return {
        "pattern": template.pattern, "attributes": template.attributes, "queues": queues,
    }  # fmt: skip
