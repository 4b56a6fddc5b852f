"""The table of dead letters: messages whose note has a reason.

Dead letters are read like other messages.

Only messages with such a note are read. The runs of a task are first reduced to these messages.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from qmgr_tables.image import damaged, image
from qmgr_tables.options import PARKED, STATES, Options
from qmgr_tables.partition import Run, Share, plan
from qmgr_tables.table import OF_QUEUE, QUEUES, TIMES, Table
from qmgr_tables.tables import messages
from qmgr_tables.tables.small_table import unpacked
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import StoredSnapshot
from qmgrd.store.lmdb_store import LmdbTransaction, ReadFailed

# maximum number of other arrivals between two dead letters that are read instead of skipped
GAP_MAX = 16
_FIRST = "dead_"
_STATES = frozenset(state for state in STATES if state != PARKED)

COLUMNS = (
    *(column for column in messages.COLUMNS if column.name.startswith(_FIRST)),
    *(column for column in messages.COLUMNS if not column.name.startswith(_FIRST)),
)


def _plan(snapshots: list[StoredSnapshot], options: Options) -> list[Share]:
    return plan(snapshots, options._replace(states=_STATES))


def read(share: Share, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the dead letters of *share*."""
    runs = tuple(_noted(share))
    if not runs:
        return
    anyhow = options._replace(
        states=_STATES,
        since_us=None,
        until_us=None,
        filters=options.filters._replace(since_us=None, until_us=None),
    )
    wanted = list(schema)
    known = {column.name: column.type for column in COLUMNS}
    for name in ("dead_code", "dead_at"):
        if name not in schema.names:
            wanted.append(pa.field(name, known[name]))
    for found in messages.read(share._replace(runs=runs), anyhow, pa.schema(wanted)):
        kept = found.filter(_is_wanted(found, options))
        if kept.num_rows:
            yield pa.RecordBatch.from_arrays(kept.columns[: len(schema)], schema=schema)


def _is_wanted(found: pa.RecordBatch, options: Options) -> pa.Array:
    """Returns a mask of the rows that are dead letters of the selected time range."""
    codes, times = found.column("dead_code"), found.column("dead_at")
    wanted = pc.is_valid(codes)
    for bound, compare in ((options.since_us, pc.greater_equal), (options.until_us, pc.less)):
        if bound is not None:
            within = compare(times.cast(pa.int64()), pa.scalar(bound, pa.int64()))
            wanted = pc.and_(wanted, pc.fill_null(within, False))
    return wanted


def _noted(share: Share) -> Iterator[Run]:
    """Yields the runs of *share*, reduced to messages that can be dead letters."""
    try:
        with image(share.snapshot).transaction() as tx:
            for run in share.runs:
                for first, stop in _stretches(_dead(tx, run)):
                    yield run._replace(first=first, stop=stop)
    except ReadFailed as error:
        raise damaged(share.snapshot, error) from error


def _dead(tx: LmdbTransaction, run: Run) -> Iterator[int]:
    """Yields the arrivals within *run* that have the note of a dead letter."""
    first, stop = keys.note(run.queue_id, run.first), keys.note(run.queue_id, run.stop)
    for key, value in tx.scan(first, stop):
        note, _ = unpacked(key, value)
        if type(note) is dict and type(note.get("code")) is int:
            yield int.from_bytes(key[keys.NOTE_ARRIVAL], "big")


def _stretches(arrivals: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yields ranges of *arrivals* that are close together, from first up to stop (exclusive)."""
    first = last = None
    for arrival in arrivals:
        if first is None or last is None:
            first = arrival
        elif arrival - last > GAP_MAX:
            yield first, last + 1
            first = arrival
        last = arrival
    if first is not None and last is not None:
        yield first, last + 1


DEAD_LETTERS = Table(
    "deadletters",
    messages.MESSAGES.version,
    "one row per dead letter",
    COLUMNS,
    _plan,
    read,
    "dead_at",
    (*QUEUES, *TIMES),
    {**OF_QUEUE, "arrival": "arrival"},
)
