"""What operators ask of templates."""

from typing import Any

from qmgr_protocol import messages as m
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.delivery import Delivery
from qmgrd.core.queue import Queue
from qmgrd.core.session import Session
from qmgrd.core.template_definitions import TemplateDefinitions, describe


class TemplateAdmin:
    """Answers requests about templates. Holds no state of its own."""

    def __init__(self, context: Context, catalogue: Catalogue, delivery: Delivery) -> None:
        self._context = context
        self._definitions = TemplateDefinitions(context, catalogue)
        self._delivery = delivery

    def template_set(self, session: Session, message: m.TemplateSet) -> None:
        """Define a template, in force from here on for all queues whose names fit."""
        before, after, held = self._definitions.set(message.pattern, message.attributes)
        old, new = before.attributes if before else {}, after.attributes
        changed = {
            key: [old.get(key), new.get(key)]
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        }
        if after != before:
            self._altered(held)
            self._context.note("info", "template set", template=message.pattern, changed=changed)
        row = describe(after, len(held)) | {"created": before is None, "changed": changed}
        self._ok(session, message.request_id, row)

    def template_delete(self, session: Session, message: m.TemplateDelete) -> None:
        """Forget a template; its queues have the next one that fits, or the defaults."""
        held = self._definitions.delete(message.pattern)
        self._altered(held)
        self._context.note("info", "template deleted", template=message.pattern)
        value = {"pattern": message.pattern, "queues": len(held)}
        self._ok(session, message.request_id, value)

    def template_list(self, session: Session, message: m.TemplateList) -> None:
        """List the templates in order of their patterns."""
        self._ok(session, message.request_id, {"templates": self._definitions.list()})

    def _altered(self, queues: list[Queue]) -> None:
        for queue in queues:
            self._delivery.queue_altered(queue)
        self._context.count_read(len(queues), 0)

    def _ok(self, session: Session, request_id: int, value: Any) -> None:
        self._context.send(session.connection, m.Ok(request_id, value))
