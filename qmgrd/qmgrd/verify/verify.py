"""Verifies a store at rest, from its pages to the relations between its rows.

file      the meta pages, its length (store/inspect.py)
manifest  of a snapshot: its checksum, that of the data file, its counts (manifest.py)
pages     LMDB's own verifier, which reads the file as bytes; the later steps rely on it
rows      seals, definitions, windows (definitions.py), messages (queue.py)
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.layout.row import RowDamaged
from qmgrd.snapshot.manifest import MANIFEST
from qmgrd.store.image import faults_of_pages, open_image
from qmgrd.store.inspect import StoreUnreadable, check_data_file
from qmgrd.store.journal import JournalUnreadable
from qmgrd.store.lmdb_store import ReadFailed
from qmgrd.store.offline import offline_store
from qmgrd.verify.definitions import check_definitions
from qmgrd.verify.finding import Findings
from qmgrd.verify.manifest import check_facts, check_manifest
from qmgrd.verify.queue import check_messages

LEAK = "-- a leak"  # end of the only harmless error of LMDB's verifier

# A function that receives a stage and its number of rows. It returns a function that receives the
# number of rows read.
Begin = Callable[[str, int], Callable[[int], object]]


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification."""

    data: Path
    queue_manager: str
    rows: int
    messages: int
    set_aside: int  # the number of messages that the queue manager had already set aside
    findings: Findings
    is_read: bool  # whether the rows were read, in addition to the pages


def verify(directory: Path, begin: Begin = lambda stage, rows: lambda more: None) -> Verification:
    """Returns all faults of the store in *directory*, which no daemon uses.

    Raises:
        StoreInUse: A daemon uses the store.
        StoreUnreadable: The store is missing or of another format.
    """
    with offline_store(directory) as store:
        data = store.data
        check_data_file(data)
        found = Findings()
        manifest = None
        if (data.parent / MANIFEST).exists():
            manifest = check_manifest(found, data, begin("bytes", data.stat().st_size))
        begin("pages", 0)
        for fault in faults_of_pages(data):
            found.add("leak" if LEAK in fault else "pages", b"", f"LMDB: {fault}")
        if found.counts["pages"]:
            return Verification(data, "", 0, 0, 0, found, is_read=False)
        try:
            store.finish_journal()
        except (JournalUnreadable, RowDamaged) as error:
            found.add("journal", keys.CHECKPOINT, str(error))
        image = open_image(data)
        try:
            count = image.stat()["entries"]
            found.looked_at = begin("rows", count)
            with image.transaction() as tx:
                name = name_in(tx, data)
                checked = check_messages(found, tx, check_definitions(found, tx))
                if manifest is not None:
                    check_facts(found, tx, manifest)
        except ReadFailed as error:
            raise StoreUnreadable(data, f"LMDB cannot read the file: {error}") from error
        finally:
            image.close()
    return Verification(data, name, count, checked.messages, checked.set_aside, found, is_read=True)


def name_in(tx: Transaction, data: Path) -> str:
    """Returns the name of the store's queue manager.

    Raises:
        StoreUnreadable: *data* is not a store of qmgrd, or has another format.
    """
    value = tx.get(keys.STORE)
    if value is None or len(value) < keys.STORE_ROW.size:
        raise StoreUnreadable(data, "not a qmgrd store: the store row is missing")
    _, version, _ = keys.STORE_ROW.unpack_from(value)
    if version not in keys.FORMATS_READ:
        known = keys.FORMATS_READ_TEXT
        raise StoreUnreadable(data, f"store format {version}, but this qmctl reads {known}")
    return value[keys.STORE_ROW.size : -4].decode(errors="replace")
