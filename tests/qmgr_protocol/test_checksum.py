"""Tests that the checksum equals that of zlib, with each library that can compute it."""

import sys
import zlib
from importlib import reload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import checksum


@given(st.binary(max_size=300), st.binary(max_size=20))
def test_sum_is_that_of_zlib_and_goes_on(first: bytes, rest: bytes) -> None:
    assert checksum.crc32(first) == zlib.crc32(first)
    assert checksum.crc32(rest, checksum.crc32(first)) == zlib.crc32(first + rest)
    assert checksum.crc32(memoryview(first)[1:]) == zlib.crc32(first[1:])


def test_zlib_stands_in_where_there_is_no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    try:
        assert reload(checksum).crc32 is zlib.crc32
    finally:
        monkeypatch.undo()
        reload(checksum)
    assert checksum.crc32 is not zlib.crc32
