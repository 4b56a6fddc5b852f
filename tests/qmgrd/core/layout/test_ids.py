"""Tests of the ids of stored objects across restarts."""

import pytest

from qmgrd.core.layout.ids import Ids


def test_ids_contain_their_boot_number() -> None:
    ids = Ids(3)
    assert [ids.next(), ids.next()] == [(3 << 40) + 1, (3 << 40) + 2]


def test_ids_of_a_boot_do_not_reach_those_of_the_next() -> None:
    ids = Ids(3)
    ids.last = (4 << 40) - 2
    assert ids.next() < Ids(4).next()
    with pytest.raises(AssertionError, match="all ids of this boot"):
        ids.next()
