"""The snapshots that the tests of tables share."""

from tests.qmgr_tables.fixtures import empty, format_1, office, snapshot

__all__ = ["empty", "format_1", "office", "snapshot"]
