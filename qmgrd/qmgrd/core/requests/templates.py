"""Handles operators' requests about templates."""

from qmgr_protocol import messages as m
from qmgr_protocol.need import Kind
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.template_definitions import TemplateDefinitions, describe
from qmgrd.core.context.context import Context
from qmgrd.core.requests.template_pass import TemplatePass
from qmgrd.core.sessions.session import Session


class TemplateAdmin:
    """Handles requests about templates. Holds no state."""

    def __init__(self, context: Context, catalogue: Catalogue, template_pass: TemplatePass) -> None:
        self._context = context
        self._templates = catalogue.templates
        self._definitions = TemplateDefinitions(context, catalogue)
        self._pass = template_pass

    def template_set(self, session: Session, message: m.TemplateSet) -> None:
        """Defines a template. Replies when the template is applied to all matching queues."""
        before, after = self._definitions.set(message.pattern, message.attributes)
        old, new = before.attributes if before else {}, after.attributes
        changed = {
            key: [old.get(key), new.get(key)]
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        }
        if after != before:
            self._context.note("info", "template set", template=message.pattern, changed=changed)
        facts = {"created": before is None, "changed": changed}

        def done() -> None:
            row = describe(after, self._templates.count(message.pattern)) | facts
            self._context.reply(session.connection, message.request_id, row)

        if after != before or self._pass.is_busy:
            self._pass.start(done)
        else:
            done()

    def template_delete(self, session: Session, message: m.TemplateDelete) -> None:
        """Deletes a template. Its queues use the next matching template, or the defaults."""
        value = {"pattern": message.pattern, "queues": self._templates.count(message.pattern)}
        self._definitions.delete(message.pattern)
        self._context.note("info", "template deleted", template=message.pattern)
        self._pass.start(lambda: self._context.reply(session.connection, message.request_id, value))

    def template_list(self, session: Session, message: m.TemplateList) -> None:
        """Lists the templates in the order of patterns."""
        rows = [
            row for row in self._definitions.list() if session.shows(Kind.TEMPLATE, row["pattern"])
        ]
        self._context.reply(session.connection, message.request_id, {"templates": rows})
