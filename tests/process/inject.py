"""The unchanged daemon with one failing system call: ``python -m tests.process.inject``.

    for each call and error: the 1st call fails, then the 2nd, ... until each has failed once

In each case, a daemon with TLS first runs on an empty directory (workload.py). strace injects the
error. The daemon then runs again without strace. All acknowledged messages must exist once, and the
store must be intact. ``EXPECTED`` defines the valid ends of the first run, depending on the call,
error and file. The command prints one summary line. After any fault it exits with 1, and prints the
command that repeats the case.

In scope ``daemon``, a fault affects the main thread from its first call on. In scope ``snapshot``,
it affects every thread and the process that writes the snapshot, after a snapshot was requested.
"""

import argparse
import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from tests.certificates import Certificates
from tests.process.daemon import PATIENCE_S, Daemon
from tests.process.workload import Fault, Workload

INTERPRETER_STEP = 50  # One in 50 of the calls before the configuration is read fails.
CPU_MAX_S = 10  # processor seconds that a run may use; it needs about one
LOG_MAX_ENTRIES = 60
EXITS = {0: "lives", 2: "configuration", 3: "store", 4: "listen"}

# The calls that fail, with their errors. "+" marks a permanent fault, such as a full disk.
PLAN = {
    "daemon": {
        "openat": "EIO ENOSPC EMFILE EINTR",
        "pwrite64 pwritev2 writev": "EIO ENOSPC ENOSPC+ EINTR",
        "fdatasync fsync ftruncate": "EIO ENOSPC EINTR",
        "pread64 mkdir rename": "EIO",
        "flock": "EINTR ENOLCK",
        "accept4": "EMFILE ENFILE ECONNABORTED EINTR",
        "epoll_create1 eventfd2 pipe2 socketpair": "EMFILE",  # LOOP
        "socket": "EMFILE",
        "bind listen": "EADDRINUSE",
        "clone3": "EAGAIN",
        "epoll_pwait": "EINTR",
    },
    "snapshot": {
        "openat": "EIO ENOSPC EMFILE EINTR",
        "write fdatasync fsync": "EIO ENOSPC EINTR",
        "rename mkdir": "EIO ENOSPC",
        "pipe2": "EMFILE",
        "clone3 vfork": "EAGAIN",
    },
}
# uvloop fails without a message if one of these calls fails.
LOOP = "epoll_create1 eventfd2 pipe2 socketpair"
STORE = "data/store*/data.mdb data/store*/lock.mdb"
JOURNAL = "data/store*/journal data/store*/journal.new"
# Thread, call, error, file, and the valid ends: the exit, then what a client or the log noticed
# before the exit. The first matching row applies. File names are relative to the directory that
# contains data/; "above" is that directory and its parents.
EXPECTED: list[tuple[str, str, str, str, set[str]]] = [
    # LMDB rightly flushes only once: a successful second flush would prove nothing.
    ("daemon", "fdatasync", "EINTR", STORE, {"store"}),
    # The daemon also does not continue a copy. The client must request the snapshot again.
    ("snapshot", "write", "EINTR", "pipe:*", {"lives", "lives, refused"}),
    # The interpreter. It compiles a module whose compiled form it cannot read, or fails before
    # main(). It does not list a directory again after EINTR.
    ("daemon", "*", "*", "python", {"lives", "interpreter"}),
    # The daemon does not continue a copy here either.
    ("snapshot", "openat", "EINTR", "*", {"lives", "lives, refused"}),
    # OpenSSL does not open a file again.
    ("daemon", "openat", "EINTR", "tls/*", {"configuration", "lives"}),
    ("*", "*", "EINTR", "*", {"lives"}),
    # The store, at the start and at each commit
    ("daemon", "openat", "*", "data.toml tls/*", {"configuration"}),
    ("daemon", "pwrite64 writev fdatasync ftruncate pread64", "*", STORE, {"store"}),
    ("daemon", "openat pwrite64 pwritev2 fdatasync fsync pread64", "*", JOURNAL, {"store"}),
    ("daemon", "openat", "*", "data/store*/data.mdb", {"store", "lives"}),  # includes a first read
    ("daemon", "openat mkdir rename fsync", "*", "data data/store*", {"store"}),
    ("daemon", "flock", "*", "data", {"store"}),
    ("daemon", "openat fsync", "*", "above", {"store", "interpreter"}),
    # Files for other programs, which the daemon can do without
    ("daemon", "openat rename", "*", "data/listening.json.new", {"lives, warned"}),
    ("daemon", "openat", "*", "data/qmgrd.lock /proc/* /dev/null", {"lives"}),
    # Sockets
    ("daemon", "accept4", "EMFILE ENFILE", "*", {"lives, warned"}),
    ("daemon", "accept4", "ECONNABORTED", "*", {"lives"}),
    ("daemon", "socket bind listen", "*", "*", {"listen"}),
    ("daemon", LOOP, "*", "*", {"lives", "event loop"}),
    ("daemon", "clone3", "*", "*", {"lives, refused"}),
    # libuv ends the process if a thread cannot wake up its loop.
    ("snapshot", "write", "*", "anon_inode:* pipe:*", {"lives", "lives, refused", "abort"}),
    # If a snapshot fails, the request is refused, and the next snapshot succeeds.
    ("snapshot", "*", "*", "*", {"lives", "lives, refused"}),
]


class Case(NamedTuple):
    """A fault: the n-th call of a kind fails, or every call from the n-th on."""

    scope: str
    call: str
    error: str
    n: int
    seed: int = 0

    def __str__(self) -> str:
        return (
            f"--scope {self.scope} --call {self.call} --error {self.error} "
            f"--from {self.n} --to {self.n} --seed {self.seed}"
        )

    @property
    def strace(self) -> list[str]:
        """The strace command, without the traced program."""
        name, on, _ = self.error.partition("+")
        return [
            "strace",
            "-qq",
            "-y",
            "-e",
            f"trace={self.call}",
            "-e",
            "signal=none",
            "-e",
            f"inject={self.call}:error={name}:when={self.n}{on}",
        ]

    @property
    def reason(self) -> str:
        """The error text in the log."""
        return os.strerror(getattr(errno, self.error.rstrip("+")))


class Hit(NamedTuple):
    """The thread that the fault affected, and the file."""

    who: str
    file: str


class Seen(NamedTuple):
    """The end of the run with the fault. ``fault`` is the detected problem, or ""."""

    end: str
    hits: list[Hit]
    fault: str = ""


def unavailable() -> str:
    """Returns the reason why strace cannot be used, or "" if it can."""
    if shutil.which("strace") is None:
        return "strace is missing: install the Debian package strace"
    command = ["strace", "-D", "-qq", "-o", "/dev/null", sys.executable, "-c", ""]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode or tried.stderr:
        return f"strace is not allowed to trace here: {tried.stderr.strip() or tried.returncode}"
    return ""


def may_end(case: Case, hit: Hit) -> set[str]:
    """Returns the valid ends of a run with this fault."""
    found = (hit.who, case.call, case.error.rstrip("+"), hit.file)
    for *patterns, ends in EXPECTED:
        if all(
            any(fnmatch(value, one) for one in str(pattern).split())
            for value, pattern in zip(found, patterns, strict=True)
        ):
            return ends
    return {"lives"}


def run(case: Case, directory: Path, command: Sequence[str] = ()) -> Seen:
    """Runs a daemon with a fault in *directory*, which must be empty; returns how it ended.

    Args:
        command: Another daemon to run instead of qmgrd.
    """
    listen = {"tcp": ["127.0.0.1:0"], "tls": ["127.0.0.1:0"]}
    tls = Certificates(directory / "tls").section()
    daemon, trace = Daemon(directory / "data", listen=listen, tls=tls), directory / "trace"
    plain = list(command or daemon.command)
    if case.scope == "daemon":
        daemon.command = [*case.strace, "-D", "-o", str(trace), *plain]
    work = Workload(daemon, case.seed, fault_stays=case.error.endswith("+"))
    end, fault = "fault", ""
    pid = daemon.launch().process.pid
    try:
        end = _first_life(case, work, trace, plain)
        log = daemon.said
        work.check()
    except Fault as found:
        fault = f"{found}\n{daemon.said}"
    finally:
        daemon.close()
    hits = list(_hits(trace, pid, directory))
    if not fault and hits:
        ends = set[str]().union(*(may_end(case, hit) for hit in hits))
        if end not in ends:
            fault = f"valid ends: {' or '.join(sorted(ends))}\n{log}"
    return Seen(end, hits, fault)


def _first_life(case: Case, work: Workload, trace: Path, plain: list[str]) -> str:
    """Runs the daemon until it ends; returns a description of how it ended."""
    daemon = work.daemon
    before_s = _cpu_s()
    listens = daemon.comes_to("listening")
    daemon.command = plain
    if listens:
        work.run(lambda: _attached(case, daemon, trace))
    elif daemon.process.poll() is None:
        raise Fault(f"the daemon hangs: it did not listen within {PATIENCE_S} s")
    code = daemon.exit_code()
    if (used_s := _cpu_s() - before_s) > CPU_MAX_S:
        raise Fault(f"the daemon used {used_s:.0f} s of CPU time")
    logged = any("level" in entry for entry in daemon.log)
    if code and not logged and not daemon.data_dir.exists() and "qmgrd:" not in daemon.said:
        return "interpreter"
    if code and case.scope == "daemon" and case.call in LOOP.split():
        return "event loop"  # libuv may print any text.
    if code == -signal.SIGABRT and (case.scope, case.call) == ("snapshot", "write"):
        return "abort"
    end = EXITS.get(code, f"exit code {code}")
    _check_log(case, daemon, end)
    if code:
        return end
    warned = any(entry.get("level") == "warning" for entry in daemon.log)
    noticed = {"refused": work.refusals, "cut": work.cuts, "warned": warned}
    return ", ".join([end, *(word for word, so in noticed.items() if so)])


def _check_log(case: Case, daemon: Daemon, end: str) -> None:
    """Checks that the log explains the end, has no tracebacks, and has no repeated entries."""
    if len(daemon.log) > LOG_MAX_ENTRIES:
        raise Fault(f"the daemon logged {len(daemon.log)} entries")
    # only entries of the daemon
    entries = list(dropwhile(lambda entry: "level" not in entry, daemon.log))
    if "Traceback" in str(entries):
        raise Fault("a traceback in the log")
    if end == "configuration":
        reasons = [daemon.said]
    elif strange := [entry["event"] for entry in entries if "level" not in entry]:
        raise Fault(f"not a valid log entry: {strange}")
    else:
        reasons = [str(entry) for entry in entries if entry["level"] == "error"]
    if end == "lives" and reasons:
        raise Fault("the daemon runs, but logged an error")
    if end != "lives" and not any(case.reason in reason for reason in reasons):
        raise Fault(f"the log does not state the reason: {case.reason}")


@contextmanager
def _attached(case: Case, daemon: Daemon, trace: Path) -> Iterator[None]:
    """Injects the fault while a snapshot is made."""
    if case.scope != "snapshot":
        yield
        return
    command = [*case.strace, "-f", "-o", str(trace), "-p", str(daemon.process.pid)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
        until = time.monotonic() + PATIENCE_S
        while not _is_traced(daemon.process.pid):
            assert time.monotonic() < until, "strace does not attach"
            assert tracer.poll() is None, f"strace ended with {tracer.poll()}"
            time.sleep(0.01)
        try:
            yield
        finally:
            tracer.terminate()


def _is_traced(pid: int) -> bool:
    statuses = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return not any("TracerPid:\t0\n" in status for status in statuses)


def _hits(trace: Path, pid: int, directory: Path) -> Iterator[Hit]:
    """Yields the hits of the fault, from the output of strace."""
    begun: dict[str, str] = {}
    for line in trace.read_text(errors="replace").splitlines() if trace.exists() else ():
        found = re.match(r"(?:(\d+) +)?(.*)", line)
        assert found is not None
        who, call = found[1] or "", found[2]
        if call.endswith("<unfinished ...>"):
            begun[who] = call
        if "(INJECTED)" in call:
            call = begun.pop(who, "") + call
            file = re.search(r'"(/[^"]*)"|\d<([^>]*)>', call)
            name = _name((file[1] or file[2]) if file else "", directory)
            yield Hit("daemon" if who in ("", str(pid)) else "snapshot", name)


def _name(file: str, directory: Path) -> str:
    path = Path(file)
    if path == directory or path in directory.parents:
        return "above"
    if path.is_relative_to(directory):
        return str(path.relative_to(directory))
    libraries = (sys.prefix, sys.base_prefix, *filter(None, sys.path), "/lib", "/usr", "/etc")
    return "python" if any(path.is_relative_to(each) for each in libraries) else file


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_of_ours(case: Case, directory: Path) -> int:
    """Returns the number of the first such call after the interpreter's start, or one below."""
    trace, file = directory / "trace", directory / "none.toml"
    commands = {
        "daemon": ["-m", "qmgrd", "--check", "--config", str(file)],
        "snapshot": ["-P", "-c", "import qmgrd.snapshot.writer"],
    }
    subprocess.run(
        [
            "strace",
            "-qq",
            "-D",
            "-o",
            str(trace),
            "-e",
            f"trace=openat,{case.call}",
            sys.executable,
            *commands[case.scope],
        ],
        capture_output=True,
        check=False,
    )
    calls = trace.read_text().partition(str(file))[0].splitlines()
    return max(1, sum(line.startswith(f"{case.call}(") for line in calls) - 4)


def numbers(case: Case, last: int, directory: Path, step: int = 1) -> Iterator[int]:
    """Yields the numbers of the calls that must fail, starting with that of *case*."""
    ours = first_of_ours(case, directory)
    yield from range(case.n, min(ours, last + 1), INTERPRETER_STEP * step)
    yield from range(max(case.n, ours), last + 1, step)


def campaign(wanted: argparse.Namespace) -> Iterator[tuple[Case, Seen]]:
    """Yields each requested case, and its result."""
    for scope, calls in PLAN.items():
        for call, error in (
            (call, error)
            for names, errors in calls.items()
            for call in names.split()
            for error in errors.split()
        ):
            named = zip(
                (scope, call, error), (wanted.scope, wanted.call, wanted.error), strict=True
            )
            if all(fnmatch(name, pattern) for name, pattern in named):
                yield from _until_clean(Case(scope, call, error, wanted.first, wanted.seed), wanted)


def _until_clean(case: Case, wanted: argparse.Namespace) -> Iterator[tuple[Case, Seen]]:
    directory = wanted.dir / "run"
    directory.mkdir(parents=True)
    for n in list(numbers(case, min(wanted.last, case.n + 10_000), directory, wanted.step)):
        shutil.rmtree(directory)
        directory.mkdir()
        case = case._replace(n=n)
        seen = run(case, directory)
        if not seen.hits and not seen.fault:
            break
        yield case, seen
    shutil.rmtree(directory)


def main() -> int:
    """Runs the requested cases; returns 0 if all ended as allowed."""
    parser = argparse.ArgumentParser(
        description="Runs the daemon with one failing system call: the 1st, 2nd, ... of a kind.",
        epilog="A name may be a pattern: --call 'pwrite*' --error 'ENOSPC*'",
    )
    parser.add_argument("--scope", default="*", help="scope: daemon or snapshot")
    parser.add_argument("--call", default="*", help="system call")
    parser.add_argument("--error", default="*", help="error of the call; ENOSPC+ is permanent")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="N")
    parser.add_argument("--to", type=int, default=1 << 30, dest="last", metavar="N")
    parser.add_argument("--step", type=int, default=1, help="only one in STEP calls fails")
    parser.add_argument("--seed", type=int, default=0, help="seed of sizes and counts")
    parser.add_argument("--dir", type=Path, default=Path("build/inject"))
    wanted = parser.parse_args()
    if why := unavailable():
        print(f"inject: {why}", file=sys.stderr)
        return 1
    wanted.dir = wanted.dir.resolve()
    shutil.rmtree(wanted.dir, ignore_errors=True)
    began, ends, faults, group = time.monotonic(), Counter[str](), 0, ""
    for case, seen in campaign(wanted):
        ends[seen.end] += 1
        if group != (group := f"{case.scope}: {case.call} {case.error}"):
            print(group, flush=True)
        if seen.fault:
            faults += 1
            print(f"FAULT {seen.end}, after {seen.hits}: {seen.fault}")
            print(f"again: python -m tests.process.inject {case}", flush=True)
    how = ", ".join(f"{end} {count}" for end, count in ends.most_common())
    print(
        f"inject: lives={ends.total()} ({how}) seed={wanted.seed} faults={faults} "
        f"seconds={time.monotonic() - began:.0f}"
    )
    return 0 if ends and not faults else 1  # A pattern that matches no case is a failure.


if __name__ == "__main__":
    sys.exit(main())
