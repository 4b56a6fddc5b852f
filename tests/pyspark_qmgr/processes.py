"""The descendants of a process, according to /proc."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

POLL_S = 0.05


def below(parent: int) -> list[int]:
    """Returns the ids of all living descendants of *parent*."""
    children: dict[int, list[int]] = {}
    for pid, (_, of, _) in _table():
        children.setdefault(of, []).append(pid)
    found: list[int] = []
    waiting = [parent]
    while waiting:
        more = children.get(waiting.pop(), [])
        found += more
        waiting += more
    return found


def words(pid: int) -> str:
    """Returns the command line of a process, or "" if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def end_session(process: "subprocess.Popen[bytes]") -> None:
    """Kills *process*, which leads a session, and all processes in the session."""
    while pids := [pid for pid, (_, _, session) in _table() if session == process.pid]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()  # This call collects the exit code, so that no zombie remains.
        time.sleep(POLL_S)
    process.wait()


def _table() -> Iterator[tuple[int, tuple[str, int, int]]]:
    """Yields the id of each living process, with its state, parent and session."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent, _, session, *_ = (
                    (entry / "stat").read_text().rpartition(")")[2].split()
                )
                if state != "Z":
                    yield int(entry.name), (state, int(parent), int(session))
