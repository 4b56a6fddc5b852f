"""Loads recorder.c, and returns its log as entries."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("recorder.c")
LOADED = "QMGR_POWERCUT_RECORDER"  # set in a process that has the library
_HEAD = struct.Struct("=QQQQ")


class Entry(NamedTuple):
    """A call, or a mark of the workload. recorder.c defines the kinds."""

    position: int  # in the log
    kind: str
    inode: int
    offset: int
    data: bytes

    @property
    def path(self) -> str:
        return self.data.decode()


def unavailable() -> str:
    """Returns the reason why nothing can be recorded, or "" if it can."""
    if not sys.platform.startswith("linux"):
        return "a power cut is recorded with LD_PRELOAD on Linux only"
    if shutil.which("cc") is None:
        return "no C compiler (cc): install the Debian package build-essential"
    return ""


def run_recorded(module: str, arguments: list[str]) -> int:
    """Runs *module* in a process that has the recorder; returns its exit code.

    Raises:
        CalledProcessError: The compiler refuses recorder.c.
    """
    with tempfile.TemporaryDirectory(prefix="powercut-") as directory:
        library = Path(directory) / "recorder.so"
        flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra"]
        subprocess.run(["cc", *flags, "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library), LOADED: str(library)}
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, env=environment, check=False).returncode


class Recorder:
    """The recorder of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[LOADED])
        self._library.powercut_stop.restype = ctypes.c_void_p

    def start(self, directory: Path) -> None:
        """Records all changes below *directory*, which exists, from now on."""
        self._library.powercut_start(os.fsencode(directory))

    def mark(self, data: bytes) -> None:
        """Adds a mark to the log."""
        self._library.powercut_mark(data, ctypes.c_size_t(len(data)))

    def stop(self) -> list[Entry]:
        """Stops recording; returns the log."""
        size = ctypes.c_size_t()
        at = self._library.powercut_stop(ctypes.byref(size))
        return _entries(ctypes.string_at(at, size.value) if size.value else b"")


def _entries(log: bytes) -> list[Entry]:
    found, at = [], 0
    while at < len(log):
        kind, inode, offset, size = _HEAD.unpack_from(log, at)
        data = log[at + _HEAD.size : at + _HEAD.size + size]
        found.append(Entry(at, chr(kind), inode, offset, data))
        at += _HEAD.size + size
    return found
