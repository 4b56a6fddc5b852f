"""The tables, by name."""

from qmgr_tables.history import HISTORY
from qmgr_tables.messages import MESSAGES
from qmgr_tables.table import Table

TABLES: dict[str, Table] = {table.name: table for table in (MESSAGES, HISTORY)}
