"""Tests that the three kinds of sources of a stream have the complete interface."""

import inspect

import pytest

from qmgr_tables.stream.browse import Browsing
from qmgr_tables.stream.options import parse
from qmgr_tables.stream.path import Snapshots
from qmgr_tables.stream.source import Source
from qmgr_tables.stream.url import Histories

URL: Source = Histories(parse({"url": "nowhere:1", "cursor": "lake"}))
PATH: Source = Snapshots(parse({"path": "/nowhere"}))
MESSAGES: Source = Browsing(parse({"url": "nowhere:1", "table": "messages"}))


@pytest.mark.parametrize("source", [URL, PATH, MESSAGES], ids=["url", "path", "messages"])
def test_source_takes_what_the_stream_gives(source: Source) -> None:
    asked = {name: value for name, value in vars(Source).items() if not name.startswith("_")}
    assert len(asked) == 7
    for name, asked_for in asked.items():
        given = inspect.signature(getattr(source, name)).parameters
        assert list(given) == list(inspect.signature(asked_for).parameters)[1:]
