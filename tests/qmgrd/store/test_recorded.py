"""Tests that a transaction keeps all changes of a turn, in their order."""

from pathlib import Path

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.store.recorded import SAMPLE, RecordedTransaction, size_of


def test_changes_are_kept_in_order(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        tx = RecordedTransaction(txn)
        tx.put(b"a", b"1")
        tx.put_all([(b"b", b"2"), (b"c", b"3")])
        tx.delete(b"a")
        tx.delete(b"missing")
        assert tx.changes == [b"a", b"1", b"b", b"2", b"c", b"3", b"a", None]
        assert [tx.get(key) for key in (b"a", b"b", b"c")] == [None, b"2", b"3"]
        assert tx.stat(env.open_db(None, txn))["entries"] == 2


def test_replayed_changes_are_not_kept(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        tx = RecordedTransaction(txn)
        tx.apply_put(b"a", b"1")
        tx.apply_delete(b"a")
        assert tx.changes == []


@given(st.lists(st.one_of(st.binary(max_size=20), st.none()), max_size=SAMPLE))
def test_size_of_few_changes_is_exact(changes: list[bytes | None]) -> None:
    assert size_of(changes) == sum(len(each) for each in changes if each is not None)


def test_size_of_many_changes_comes_from_a_sample() -> None:
    changes: list[bytes | None] = [bytes(10), bytes(300)] * 10_000
    assert size_of(changes) == pytest.approx(310 * 10_000, rel=0.02)
