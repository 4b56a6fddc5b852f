import random
import shutil
from pathlib import Path

import lmdb
import pytest

from qmgr_protocol.codec import pack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.store.image import faults_of_pages
from qmgrd.store.inspect import StoreUnreadable
from qmgrd.verify.content import store_content
from qmgrd.verify.definitions import SPACES
from qmgrd.verify.verify import LEAK
from tests.disk_stores import JOURNAL_BYTES
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.shot import rows_of

PAGE = 4_096
SYSTEM = {"SYSTEM.EVENTS"}  # This queue has the event of the stopped group.


def test_rows_and_bytes_are_those_of_the_store(sound: Path) -> None:
    found = store_content(sound)
    there = rows_of(sound / "store/data.mdb")
    assert found["rows"] == sum(kind["rows"] for kind in found["kinds"]) == len(there)
    size = sum(len(key) + len(value) for key, value in there.items())
    assert sum(kind["bytes"] for kind in found["kinds"]) == size
    of_topics = (keys.SPACE_TOPIC, keys.SPACE_HOLDERS, keys.SPACE_PARKED, keys.SPACE_RETAINED)
    of_history = (keys.SPACE_HISTORY, keys.SPACE_CURSOR)
    # These kinds are covered by test_publications.py, test_history.py, and the next test.
    of_users = (keys.SPACE_USER, keys.SPACE_ROLE)
    empty = (*of_topics, *of_history, *of_users, keys.SPACE_ASIDE, keys.SPACE_UNOWNED)
    others = {SPACES[space] for space in empty}
    assert {kind["kind"] for kind in found["kinds"]} == set(SPACES.values()) - others


def test_items_set_aside_are_counted(store: Path) -> None:
    before = store_content(store)["rows"]
    key, value = keys.aside(1), pack(["row", b"k", "a row", "it is invalid", 0, b"row"])
    sealed = rows.seal(key, value)
    stores.change(store, stores.put(key, sealed))
    found = store_content(store)
    (kind,) = (kind for kind in found["kinds"] if kind["kind"] == SPACES[keys.SPACE_ASIDE])
    assert (kind["rows"], kind["bytes"]) == (1, len(key) + len(sealed))
    assert found["rows"] == before + 1


def test_all_pages_are_accounted_for(sound: Path) -> None:
    found = store_content(sound)
    parts = found["used_bytes"] + found["free_bytes"] + found["overhead_bytes"]
    assert found["overhead_bytes"] >= 2 * found["page_bytes"]
    assert parts % found["page_bytes"] == 0
    assert parts >= found["file_bytes"]  # The file may end before its free pages.
    assert found["map_bytes"] == 1 << 30
    assert found["journal_bytes"] == JOURNAL_BYTES
    assert (found["tree_depth"], found["leaf_pages"], found["branch_pages"]) == (2, 3, 1)
    assert found["overflow_pages"] == 16  # four full pieces for each of four long messages


def test_queues_report_their_contents(sound: Path) -> None:
    found = {queue["queue"]: queue for queue in store_content(sound)["queues"]}
    assert set(found) == {"Q", "EMPTY", "LATE", "@NYC", "GROUPS"} | SYSTEM
    queue = found["Q"]
    assert queue["priorities"] == {4: 5, 0: 2}
    assert (queue["depth"], queue["set_aside"]) == (7, 0)
    assert queue["bytes"] > 2 * len(stores.LONG)
    assert queue["oldest_us"] == 1_700_000_000_000_000
    assert found["EMPTY"]["oldest_us"] is None
    # The message of another origin has a row in the UID index.
    assert (queue["unindexed"], found["EMPTY"]["unindexed"]) == (6, 0)
    late = found["LATE"]
    assert (late["depth"], late["delayed"], late["priorities"]) == (4, 1, {4: 4, 7: 1})
    groups = found["GROUPS"]
    assert (groups["depth"], groups["grouped"], groups["delayed"]) == (4, 4, 1)
    assert (late["grouped"], queue["grouped"]) == (1, 0)


def test_largest_queue_comes_first(sound: Path) -> None:
    found = [
        queue["queue"] for queue in store_content(sound)["queues"] if queue["queue"] not in SYSTEM
    ]
    assert found == ["Q", "LATE", "@NYC", "GROUPS", "EMPTY"]


def test_contents_are_counted_despite_damage(store: Path) -> None:
    stores.change(
        store,
        stores.flip(keys.SPACE_QUEUE + b"Q"),
        stores.flip(stores.ready(3), 1),
        stores.flip(keys.CLOCK),
    )
    found = store_content(store)
    there = {queue["queue"] for queue in found["queues"]}
    assert there == {"EMPTY", "LATE", "@NYC", "GROUPS"} | SYSTEM
    assert found["queue_manager"] == "QM1"


def test_oldest_is_one_that_can_be_read(store: Path) -> None:
    first = stores.ready(3)  # messages of @NYC, which all have the same priority
    stores.change(store, lambda txn: txn.put(stores.rows_in(txn, first)[0][0], b"\0\xff" * 50))
    (queue,) = (queue for queue in store_content(store)["queues"] if queue["queue"] == "@NYC")
    assert (queue["depth"], queue["oldest_us"]) == (2, 1_700_000_000_000_000)


def test_any_damaged_page_in_use_is_refused(store: Path) -> None:
    data = store / "store/data.mdb"
    sound = data.read_bytes()
    refused = 0
    for at in range(2 * PAGE, len(sound), PAGE):
        data.write_bytes(sound[:at] + bytes(PAGE) + sound[at + PAGE :])
        try:
            store_content(store)  # A page may be free, or may be in the middle of a long value.
        except StoreUnreadable as error:
            assert ": damaged: " in str(error)  # noqa: PT017 - not all are refused
            refused += 1
    assert refused >= 2  # the roots of the free pages and of the rows


def test_reader_that_was_killed_is_counted(store: Path, tmp_path: Path) -> None:
    assert store_content(store)["readers"] == 0
    env = lmdb.open(str(store / "store"), map_size=1 << 30, max_dbs=0, lib_version=0)
    with env.begin() as txn:
        killed = shutil.copytree(store, tmp_path / "killed")
        found = store_content(killed)
        assert (found["readers"], found["oldest_reader"]) == (1, txn.id())
    env.close()


@pytest.mark.parametrize("seed", range(20))
def test_pages_that_are_nonsense_are_refused_not_mapped(store: Path, seed: int) -> None:
    data = store / "store/data.mdb"
    pages = bytearray(data.read_bytes())
    head = random.Random(seed).randrange(2, len(pages) // 4096) * 4096
    pages[head : head + 4096] = bytes(4096)
    data.write_bytes(pages)
    if any(LEAK not in fault for fault in faults_of_pages(data)):
        with pytest.raises(StoreUnreadable, match=r"damaged: .*see: qmctl store verify"):
            store_content(store)
    else:
        store_content(store)


def test_list_of_free_pages_that_is_nonsense_is_reported(store: Path) -> None:
    data = store / "store/data.mdb"
    pages = bytearray(data.read_bytes())
    for meta in (0, 4096):
        pages[meta + 81] ^= 0x40  # the root of the list
    data.write_bytes(pages)
    with pytest.raises(StoreUnreadable, match="damaged"):
        store_content(store)
