"""Cuts a real file system off under load: ``python -m tests.process.cutoff --kind ext4``.

    producers ──▶ daemon ──▶ consumers
                    │
                    ▼
    data directory on ext4 or XFS, in a file that is a loop device

Each cycle makes the file system fail at a random moment, as a lost disk does: it writes nothing
more, not even its own journal. The daemon must end by itself, because it cannot make turns durable.
LMDB reads the store through a memory map, so a page that is not in memory may end it with SIGBUS.
Then the file system is mounted again, which discards all data that no flush made durable, and the
daemon starts on it. In some cycles, the moment is during a start.

At the end, everything drains, and the ledger must balance: no acknowledged message is lost, every
duplicate is flagged, and no unknown message arrives. The store must be intact after every tenth
cycle and at the end. The command prints one summary line. After any fault it exits with 1.

This needs root, loop devices, and the commands of the Debian packages e2fsprogs and xfsprogs.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from qmgr_demo.cluster import Node
from qmgrd.verify.verify import verify
from tests.process.load import STALL_MAX_S, Load

KINDS = ("ext4", "xfs")
MIB = 1 << 20
DISK_BYTES = 1024 * MIB  # XFS needs 300 MiB; the file is sparse
SETTINGS = {"QMGRD_STORE__MAP_BYTES": "512 MiB"}
BACKLOG_MAX = 5_000
PAUSE_MAX_S = 0.6
START_PART = 0.2  # fraction of the cycles whose moment is during a start
END_MAX_S = 20  # the time in which a daemon must end that cannot write
VERIFY_EACH = 10


class ToolFailed(Exception):
    """Raised if a command of the system failed."""


class Disk:
    """A file system of one *kind*, in a file of *directory*."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.mount_point = directory / "disk"
        self._file, self._kind = directory / "disk.img", kind

    def make(self) -> None:
        """Creates the file system. It is not mounted."""
        self.mount_point.mkdir(parents=True)
        with self._file.open("wb") as file:
            file.truncate(DISK_BYTES)
        quiet = "-F" if self._kind == "ext4" else "-f"
        _run(f"mkfs.{self._kind}", "-q", quiet, str(self._file))

    def mount(self) -> None:
        """Mounts the file system, which first recovers from its own journal."""
        _run("mount", "-t", self._kind, "-o", "loop", str(self._file), str(self.mount_point))

    def unmount(self) -> None:
        """Unmounts the file system, which must not be in use."""
        _run("umount", str(self.mount_point))

    def cut_off(self) -> None:
        """Makes every later write and flush of the file system fail."""
        _run("xfs_io", "-x", "-c", "shutdown", str(self.mount_point))


def unavailable(kind: str) -> str:
    """Returns why file systems of *kind* cannot be cut off on this machine, or ""."""
    if os.geteuid() != 0:
        return "only root may mount a file system"
    for command in (f"mkfs.{kind}", "xfs_io", "mount", "umount"):
        if shutil.which(command) is None:
            return f"the command {command} is missing"
    with TemporaryDirectory() as directory:
        disk = Disk(Path(directory), kind)
        try:
            disk.make()
            disk.mount()
            disk.unmount()
        except ToolFailed as failed:
            return str(failed)
    return ""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolFailed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


class CutOff:
    """A daemon on a disk that is cut off again and again, and the load on it."""

    def __init__(
        self, directory: Path, kind: str, seed: int, program: Sequence[str] = ("-m", "qmgrd")
    ) -> None:
        """Prepares everything in *directory*.

        Args:
            kind: The kind of the file system.
            seed: Determines the moments of the cuts.
            program: The daemon as a Python program.
        """
        self._rng = random.Random(seed)
        self._disk = Disk(directory, kind)
        self._node = Node("QM1", self._disk.mount_point, SETTINGS, program)
        self._node.log = directory / "QM1.log"  # the log must survive the cut
        node = self._node
        self.load = Load(
            node,
            node,
            "Q",
            "Q",
            self._rng.randrange(2**32),
            backlog_max=BACKLOG_MAX,
            stall_max_s=STALL_MAX_S,
        )
        self.faults: list[str] = []
        self.replays = 0  # number of starts that replayed the journal

    async def run(self, cycles: int) -> None:
        """Runs *cycles* under load, then drains everything. Adds problems to ``faults``."""
        self._disk.make()
        with self._mounted():
            self._node.start()
            async with self._node.connect("cutoff") as manager:
                await manager.admin.queue_create("Q")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.load.run())
                for cycle in range(1, cycles + 1):
                    await self._cycle(is_checked=cycle % VERIFY_EACH == 0)
                    _show(cycle, cycles, self.load)
                self.load.stopping.set()
            if code := self._node.stop():
                self.faults.append(f"the daemon stopped with {code}")
            self._check_store()
        self.replays = self._node.log.read_text().count("replayed the journal")

    @contextmanager
    def _mounted(self) -> Iterator[None]:
        self._disk.mount()
        try:
            yield
        finally:
            if self._node.is_running():
                self._node.kill()
            self._disk.unmount()

    async def _cycle(self, *, is_checked: bool) -> None:
        if self._rng.random() >= START_PART:
            async with self._node.connect("cutoff"):
                pass  # The daemon is up.
        await asyncio.sleep(self._rng.uniform(0.0, PAUSE_MAX_S))
        await asyncio.to_thread(self._cut_off)
        self._disk.unmount()
        self._disk.mount()
        if is_checked:
            await asyncio.to_thread(self._check_store)
        self._node.start()

    def _cut_off(self) -> None:
        """Cuts the disk off, and waits until the daemon has ended."""
        self._disk.cut_off()
        assert self._node.process is not None
        try:
            code = self._node.process.wait(END_MAX_S)
        except subprocess.TimeoutExpired:
            self.faults.append(f"the daemon still ran {END_MAX_S} s after the disk was cut off")
            self._node.kill()
            return
        if code <= 0 and code != -signal.SIGBUS:
            self.faults.append(f"the daemon ended with {code} after the disk was cut off")

    def _check_store(self) -> None:
        if (self._node.data_dir / "store" / "data.mdb").exists():
            self.faults += map(str, verify(self._node.data_dir).findings.kept)


def _show(cycle: int, cycles: int, load: Load) -> None:
    if cycle % 10 == 0:
        print(
            f"cycle {cycle} of {cycles}: {len(load.ledger.acknowledged)} acknowledged, "
            f"{load.ledger.consumed} consumed",
            flush=True,
        )


def campaign(
    directory: Path, kind: str, cycles: int, seed: int, program: Sequence[str] = ("-m", "qmgrd")
) -> int:
    """Runs a campaign and prints its summary. Returns 0 if there are no faults."""
    began = time.monotonic()
    cut_off = CutOff(directory, kind, seed, program)
    asyncio.run(cut_off.run(cycles))
    for fault in cut_off.faults:
        print(fault, file=sys.stderr)
    ledger = cut_off.load.ledger
    print(
        f"cutoff: kind={kind} cycles={cycles} seed={seed} "
        f"acknowledged={len(ledger.acknowledged)} consumed={ledger.consumed} "
        f"redelivered={ledger.redelivered} lost={len(ledger.lost)} "
        f"doubled={len(ledger.doubled)} unexpected={len(ledger.unexpected)} "
        f"replays={cut_off.replays} faults={len(cut_off.faults)} "
        f"seconds={time.monotonic() - began:.0f}"
    )
    return 1 if ledger.lost or ledger.doubled or ledger.unexpected or cut_off.faults else 0


def main() -> int:
    """Runs the campaigns. Returns 0 if none of them has faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--dir", type=Path, default=Path("build/cutoff"))
    options = parser.parse_args()
    if options.cycles < 1:
        parser.error("--cycles must be positive")
    seed = random.randrange(2**32) if options.seed is None else options.seed
    result = 0
    for kind in options.kind or KINDS:
        if why := unavailable(kind):
            print(f"cutoff: kind={kind} cannot run: {why}", file=sys.stderr)
            result = 1
            continue
        directory = (options.dir / kind).resolve()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        result |= campaign(directory, kind, options.cycles, seed)
    return result


if __name__ == "__main__":
    sys.exit(main())
