"""Snapshots that the tests of tables share."""

from tests.qmgr_tables.fixtures import empty, snapshot

__all__ = ["empty", "snapshot"]
