"""Creates and deletes templates, and stores their rows."""

from typing import Any

from qmgr_protocol.amount import amount
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue import attributes
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.missing import unknown_template_error
from qmgrd.core.catalogue.near import LOOKED_AT_MAX
from qmgrd.core.catalogue.templates import TEMPLATES_MAX, Template, check_pattern, fits
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows


class TemplateDefinitions:
    """Defines and forgets the templates of a catalogue."""

    def __init__(self, context: Context, catalogue: Catalogue) -> None:
        self._context = context
        self._catalogue = catalogue

    def set(self, pattern: str, given: dict[str, Any]) -> tuple[Template | None, Template]:
        """Defines a template permanently. Returns the template before and after the change.

        A pass over the existing queues applies the template to them (template_pass.py).

        Raises:
            RequestError: NAME_INVALID, VALUE_INVALID or TEMPLATES_EXHAUSTED. Nothing is changed.
        """
        check_pattern(pattern)
        templates = self._catalogue.templates
        after = Template(pattern, attributes.template_attributes(pattern, given))
        before = templates.get(pattern)
        if before is None and len(templates) >= TEMPLATES_MAX:
            raise RequestError(
                ErrorCode.TEMPLATES_EXHAUSTED,
                f"{amount(len(templates), 'template')} exist (the limit is {TEMPLATES_MAX})",
            )
        if after == before:
            return before, before
        templates.add(after)
        try:
            self._check_backout_queue(after)
        except RequestError:
            if before is None:
                templates.remove(pattern)
            else:
                templates.add(before)
            raise
        key = keys.SPACE_TEMPLATE + pattern.encode()
        rows.put(self._context.tx, key, pack(after.attributes))
        self._context.wrote = True
        return before, after

    def _check_backout_queue(self, template: Template) -> None:
        """Raises VALUE_INVALID if *template* would make a queue its own backout queue.

        Other errors of a template do not depend on the queue.
        """
        name = template.attributes.get("backout_queue", "")
        if self._catalogue.templates.of(name) is template:
            self._catalogue.check_in_force(name, template)

    def delete(self, pattern: str) -> None:
        """Deletes a template.

        Raises:
            RequestError: NAME_INVALID, TEMPLATE_UNKNOWN, or VALUE_INVALID if the template that
                would apply instead is not valid for one of the queues. Nothing is changed.
        """
        check_pattern(pattern)
        templates = self._catalogue.templates
        if templates.get(pattern) is None:
            self._context.count_read(min(len(templates), LOOKED_AT_MAX), 0)
            known = (template.pattern for template in templates)
            raise unknown_template_error(pattern, known if self._context.gives_hints else ())
        removed = templates.remove(pattern)
        try:
            for template in templates:  # Names that do not match the pattern are not affected.
                if fits(pattern, template.attributes.get("backout_queue", "")):
                    self._check_backout_queue(template)
        except RequestError:
            templates.add(removed)
            raise
        self._context.count_read(len(templates), 0)
        self._context.tx.delete(keys.SPACE_TEMPLATE + pattern.encode())
        self._context.wrote = True

    def list(self) -> list[dict[str, Any]]:
        """Returns all templates in the order of their patterns, each with the number of its
        queues.
        """
        templates = self._catalogue.templates
        self._context.count_read(len(templates), 0)
        return [describe(template, templates.count(template.pattern)) for template in templates]


def describe(template: Template, queues: int) -> dict[str, Any]:
    """Returns the row of a template for operators."""
    return {"pattern": template.pattern, "attributes": template.attributes, "queues": queues}
