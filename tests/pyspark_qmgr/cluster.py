"""A standalone Spark cluster on this machine, for tests: a master and workers as processes.

    with Cluster(tmp_path) as cluster:
        done = cluster.submit(program, "depth", "--path", path, "--to", to)

The cluster uses no fixed ports. All its processes, including those that an executor starts, belong
to the sessions of the processes that this module starts. All of them end when the block ends.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pyspark

START_MAX_S = 120.0
SUBMIT_MAX_S = 300.0
POLL_S = 0.05
SPARK_HOME = Path(pyspark.__file__).parent
EXECUTOR = "CoarseGrainedExecutorBackend"
_MASTER_UP = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:[0-9]+)")
_WORKER_UP = re.compile(r"Successfully registered with master")


class ClusterFailed(AssertionError):
    """Raised if a part of the cluster did not start. The message is the end of its log."""


class Cluster:
    """A master and *workers* with one core each. Invariant: within the block, all of them run."""

    def __init__(
        self, directory: Path, workers: int = 2, memory: str = "1g", *, has_packages: bool = True
    ) -> None:
        """Prepares a cluster whose logs and work are below *directory*."""
        self._directory = directory
        self._workers = workers
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""  # address in the form spark://HOST:PORT
        self.environment = os.environ | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_CONF_DIR": str(directory / "conf"),
            "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=false",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)) if has_packages else "",
        }

    def __enter__(self) -> "Cluster":
        """Starts the cluster. Returns once all workers are registered."""
        (self._directory / "conf").mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops the cluster."""
        self.stop()

    def _start(self) -> None:
        log = self._spawn(
            "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        self.master = self._wait(log, _MASTER_UP)[1]
        logs = [
            self._spawn(
                "worker.Worker",
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                self._memory,
                "--work-dir",
                str(self._directory / f"work-{number}"),
                self.master,
            )
            for number in range(self._workers)
        ]
        for log in logs:
            self._wait(log, _WORKER_UP)

    def _spawn(self, name: str, *arguments: str) -> Path:
        """Starts a Spark daemon. Returns the path of its log."""
        path = self._directory / f"{len(self._processes)}.log"
        words = [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
        with path.open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*words, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.environment,
                    start_new_session=True,
                    cwd=self._directory,
                )
            )
        return path

    def _wait(self, log: Path, line: re.Pattern[str]) -> re.Match[str]:
        end_s = time.monotonic() + START_MAX_S
        process = self._processes[int(log.stem)]
        while time.monotonic() < end_s:
            ended = process.poll() is not None
            if found := line.search(log.read_text(errors="replace")):
                return found
            if ended:
                break
            time.sleep(POLL_S)
        raise ClusterFailed(f"{process.args!r}: {log.read_text(errors='replace')[-2_000:]}")

    def submit(
        self,
        program: Path,
        *arguments: str,
        options: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs *program* with spark-submit and its *options*. Returns the completed process."""
        process = subprocess.Popen(
            [
                str(SPARK_HOME / "bin/spark-submit"),
                "--master",
                self.master,
                *options,
                "--conf",
                "spark.ui.enabled=false",
                str(program),
                *arguments,
            ],
            env=self.environment | (environment or {}),
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=SUBMIT_MAX_S)
        finally:
            _end_session(process)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def executors(self) -> list[int]:
        """Returns the ids of the running executors' processes."""
        sessions = {process.pid for process in self._processes}
        return [pid for pid in _of_sessions(sessions) if EXECUTOR in _words(pid)]

    def kill(self, executor: int) -> None:
        """Kills the process *executor*. Its worker starts a new one."""
        assert executor in self.executors()
        os.kill(executor, signal.SIGKILL)

    def stop(self) -> None:
        """Ends all processes, and waits until they have ended."""
        for process in reversed(self._processes):
            _end_session(process)
        self._processes.clear()


def _end_session(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """Ends *process*, which leads a session, and all processes in the session."""
    while pids := list(_of_sessions({process.pid})):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()  # This call collects the exit code, so that no zombie remains.
        time.sleep(POLL_S)
    process.wait()


def _of_sessions(sessions: set[int]) -> Iterator[int]:
    """Yields the ids of living processes in *sessions*."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, *_, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) in sessions and state != "Z":
                    yield int(entry.name)


def _words(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""
