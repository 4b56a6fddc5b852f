"""Checks whether the tests notice a changed line: `python -m tests.mutate [window record keys ...]`

mutmut changes one operator, literal or argument of a module at a time. The module's tests must then
fail. mutmut changes functions only: the layout tests cover constants and properties. mutmut
supports only one source root, so it runs in a folder that contains all packages.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).parent.parent
BUILD = REPO / "build/mutate"
PACKAGES = ("qmgrd/qmgrd", "protocol/qmgr_protocol", "config/qmgr_config", "protocol/qmgr_client")
SHARE_MIN = 0.85
MEMORY_MAX_BYTES = 4 * 1024**3  # stops an endless loop before it uses up the memory
PYTEST = ["-p", "no:cacheprovider", "--timeout=30", "--hypothesis-profile=mutate"]
CAUGHT = ("killed", "timeout", "segfault")
CORE = "tests/qmgrd/core"


class Module(NamedTuple):
    """A source file, and the tests that cover it."""

    path: str
    tests: tuple[str, ...]

    @property
    def package_path(self) -> str:
        """The path of the module in the folder that contains all packages."""
        return self.path.split("/", 1)[1]


QUEUE_TESTS = (
    *(f"{CORE}/queue/test_{name}.py" for name in ("queue", "put", "take", "dedup", "lease")),
    *(f"{CORE}/layout/test_{name}.py" for name in ("counters", "stamp")),
    f"{CORE}/sessions/test_delivery.py",
    f"{CORE}/link/test_outbox.py",
    f"{CORE}/test_queue_model.py",
    f"{CORE}/test_broker.py",
    "tests/test_conversations.py",
)
MODULES = {
    "window": Module(
        "protocol/qmgr_protocol/window.py",
        ("tests/qmgr_protocol/test_window.py", "tests/test_conversations.py"),
    ),
    "record": Module("protocol/qmgr_protocol/record.py", ("tests/qmgr_protocol/test_record.py",)),
    "keys": Module("qmgrd/qmgrd/core/layout/keys.py", (f"{CORE}/layout/test_keys.py",)),
    "queue": Module("qmgrd/qmgrd/core/queue/queue.py", QUEUE_TESTS),
    "put": Module("qmgrd/qmgrd/core/queue/put.py", QUEUE_TESTS),
    "plain": Module(
        "qmgrd/qmgrd/core/queue/plain.py", (f"{CORE}/queue/test_plain.py", *QUEUE_TESTS)
    ),
    "producer_puts": Module(
        "qmgrd/qmgrd/core/sessions/producer_puts.py",
        (f"{CORE}/sessions/test_producer_puts.py", f"{CORE}/sessions/test_streams.py"),
    ),
    "take": Module("qmgrd/qmgrd/core/queue/take.py", QUEUE_TESTS),
}


def configuration(module: Module) -> str:
    """Returns the pyproject.toml for a run on *module*: our file plus the settings of mutmut."""
    ours = (REPO / "pyproject.toml").read_text()
    return f"""{ours}
[tool.mutmut]
source_paths = {[path.split("/")[1] for path in PACKAGES]}
only_mutate = ["{module.package_path}"]
pytest_add_cli_args_test_selection = {[*module.tests, "-m", "not slow"]}
pytest_add_cli_args = {PYTEST}
timeout_constant = 10.0
timeout_multiplier = 3.0
use_git_change_detection = false
"""


def lay_out(folder: Path, module: Module) -> None:
    """Creates *folder* again, with all packages, the tests and the configuration."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (*PACKAGES, "tests"):
        (folder / Path(path).name).symlink_to(REPO / path)
    (folder / "pyproject.toml").write_text(configuration(module))


def mutmut(folder: Path, *arguments: str) -> str:
    """Runs mutmut in *folder*; returns its output.

    Raises: SystemExit: mutmut failed. The message contains its output.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYTHONHASHSEED"] = "0"
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-4_000:])
        raise SystemExit(f"mutate: mutmut {arguments[0]} ended with {done.returncode}")
    return done.stdout


def verdicts(results: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the result of each mutant from `mutmut results`."""
    for line in results.splitlines():
        name, colon, verdict = line.strip().rpartition(": ")
        if colon:
            yield name, verdict


def judge(name: str) -> bool:
    """Runs the mutants of a module, prints the result, and writes the survivors to build/mutate."""
    folder = BUILD / name
    lay_out(folder, MODULES[name])
    mutmut(folder, "run", "--max-children", "1")
    found = dict(verdicts(mutmut(folder, "results", "--all", "true")))
    alive = [mutant for mutant, verdict in found.items() if verdict not in CAUGHT]
    shown = BUILD / f"{name}.txt"
    shown.write_text("\n".join(mutmut(folder, "show", mutant) for mutant in alive))
    share = 1 - len(alive) / len(found)
    print(
        f"mutate: {name:6}  mutants {len(found):4}  killed {len(found) - len(alive):4}  "
        f"survived {len(alive):3}  share {share:6.1%}"
        + (f"  see {shown.relative_to(REPO)}" if alive else ""),
        flush=True,
    )
    return share >= SHARE_MIN


def main() -> int:
    """Runs all modules; returns 0 if each module's tests kill at least SHARE_MIN of its mutants."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", choices=[*MODULES, []], help="modules to test (default: all)"
    )
    names = parser.parse_args().modules or list(MODULES)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    weak = [name for name in names if not judge(name)]
    if weak:
        print(f"mutate: FAILED: below {SHARE_MIN:.0%}: {', '.join(weak)}")
    return bool(weak)


if __name__ == "__main__":
    sys.exit(main())
