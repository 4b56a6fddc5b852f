"""Small, different snapshots of many queue managers, made without separate processes."""

import os
import shutil
from pathlib import Path

from qmgr_protocol import messages as m
from qmgrd.snapshot.writer import TRAILER, WriteRequest, write
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.snapshot.shot import managed


def make(directory: Path, count: int) -> Path:
    """Returns a directory of snapshots QM0, QM1 and so on. QMn has n + 1 messages on queue Q."""
    shots = directory / "shots"
    shots.mkdir()
    for number in range(count):
        name = f"QM{number}"
        with managed(directory / f"store-{name}", name) as manager:
            app = manager.connect()
            app.ask(m.QueueCreate, "Q", {"backout_threshold": 1})
            app.put_records("Q", *(record(b"%d" % at) for at in range(number + 1)))
            if number % 10 == 0:
                app.release(*app.get("Q", 1))
        shoot(manager, shots / name)
        shutil.rmtree(manager.store.directory)
    return shots


def shoot(manager: Manager, directory: Path) -> None:
    """Writes a snapshot of a stopped queue manager, with the daemon's own code."""
    data = manager.store.directory / "store/data.mdb"
    path = directory.with_suffix(".copy")
    path.write_bytes(data.read_bytes() + TRAILER)
    order = WriteRequest(
        directory=str(directory),
        partial=f"{directory.name}.partial-1",
        turn=manager.turns.broker.context.turn_number,
        expected_bytes=0,
        rate_bytes=1 << 40,
        reserve_bytes=0,
    )
    fd = os.open(path, os.O_RDONLY)
    try:
        write(order, fd)
    finally:
        os.close(fd)
        path.unlink()
