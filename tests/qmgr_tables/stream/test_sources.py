"""Tests of the choice of a stream's source."""

import pytest

from qmgr_tables.stream.browse import Browsing
from qmgr_tables.stream.options import parse
from qmgr_tables.stream.path import Snapshots
from qmgr_tables.stream.sources import source_of
from qmgr_tables.stream.url import Histories


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({"path": "/snapshots"}, Snapshots),
        ({"url": "nowhere:1", "cursor": "lake"}, Histories),
        ({"url": "nowhere:1", "cursor": "lake", "table": "history"}, Histories),
        ({"url": "nowhere:1", "table": "messages"}, Browsing),
    ],
    ids=["snapshots", "history", "history by name", "messages"],
)
def test_options_say_which(given: dict[str, str], source: type) -> None:
    assert type(source_of(parse(given))) is source
