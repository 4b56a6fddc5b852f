"""What a stream reads from, by its options."""

from qmgr_tables.stream_browse import Browsing
from qmgr_tables.stream_options import StreamOptions
from qmgr_tables.stream_path import Snapshots
from qmgr_tables.stream_source import Source
from qmgr_tables.stream_url import Journals


def source_of(options: StreamOptions) -> Source:
    """Return the source of a stream with these options."""
    if not options.urls:
        return Snapshots(options)
    return Journals(options) if options.of.table == "history" else Browsing(options)
