"""The choice of the source of a stream by its options."""

from qmgr_tables.stream.browse import Browsing
from qmgr_tables.stream.options import StreamOptions
from qmgr_tables.stream.path import Snapshots
from qmgr_tables.stream.source import Source
from qmgr_tables.stream.url import Histories


def source_of(options: StreamOptions) -> Source:
    """Returns the source of a stream with *options*."""
    if not options.urls:
        return Snapshots(options)
    return Histories(options) if options.of.table == "history" else Browsing(options)
