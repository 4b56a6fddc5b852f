"""The tables, by name."""

from qmgr_tables.table import Table
from qmgr_tables.tables.audit import AUDIT_TABLE
from qmgr_tables.tables.deadletters import DEAD_LETTERS
from qmgr_tables.tables.duplicates import DUPLICATES
from qmgr_tables.tables.events import EVENTS_TABLE
from qmgr_tables.tables.groups import GROUPS
from qmgr_tables.tables.history import HISTORY
from qmgr_tables.tables.links import LINKS
from qmgr_tables.tables.messages import MESSAGES
from qmgr_tables.tables.origins import ORIGINS
from qmgr_tables.tables.queues import QUEUES_TABLE
from qmgr_tables.tables.republish import REPUBLISH
from qmgr_tables.tables.snapshots import SNAPSHOTS
from qmgr_tables.tables.subscriptions import SUBSCRIPTIONS

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        MESSAGES,
        QUEUES_TABLE,
        GROUPS,
        LINKS,
        DUPLICATES,
        ORIGINS,
        SUBSCRIPTIONS,
        REPUBLISH,
        DEAD_LETTERS,
        EVENTS_TABLE,
        AUDIT_TABLE,
        HISTORY,
        SNAPSHOTS,
    )
}
