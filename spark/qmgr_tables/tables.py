"""The tables, by name."""

from qmgr_tables.deadletters import DEAD_LETTERS
from qmgr_tables.duplicates import DUPLICATES
from qmgr_tables.events import EVENTS_TABLE
from qmgr_tables.groups import GROUPS
from qmgr_tables.history import HISTORY
from qmgr_tables.links import LINKS
from qmgr_tables.messages import MESSAGES
from qmgr_tables.origins import ORIGINS
from qmgr_tables.queues import QUEUES_TABLE
from qmgr_tables.republish import REPUBLISH
from qmgr_tables.shots import SNAPSHOTS
from qmgr_tables.subscriptions import SUBSCRIPTIONS
from qmgr_tables.table import Table

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        MESSAGES, QUEUES_TABLE, GROUPS, LINKS, DUPLICATES, ORIGINS, SUBSCRIPTIONS, REPUBLISH,
        DEAD_LETTERS, EVENTS_TABLE, HISTORY, SNAPSHOTS,
    )
}  # fmt: skip
