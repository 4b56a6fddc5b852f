"""Tests of the store after simulated power cuts, and of the simulation.

`make powercut` checks many more states.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgrd.store.journal_store import JournalStore
from tests.process.powercut import recorder
from tests.process.powercut.controls import CONTROLS
from tests.process.powercut.core import PRODUCER, SMALL, Known, body, check_core
from tests.process.powercut.witness import JOURNAL_BYTES, MAP_BYTES, kill
from tests.process.powercut.work import Fault
from tests.qmgrd.core.harness import Manager, record

REASON = recorder.unavailable()
pytestmark = [pytest.mark.process, pytest.mark.skipif(bool(REASON), reason=REASON)]

STATES = 500
FAULT = ["--operations", "ppp", "--control", "journal-is-not-flushed"]


def run(*arguments: str) -> tuple[int, str]:
    """Returns the exit code and the output of the command."""
    command = [sys.executable, "-m", "tests.process.powercut", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def test_no_power_cut_loses_or_halves_a_turn() -> None:
    code, output = run("--states", str(STATES), "--seed", "1")
    assert (code, f"states={STATES} " in output) == (0, True), output


@pytest.mark.parametrize(
    ("kind", "operations"),
    [("rows", "plcsjxrp"), ("rows", "padfkxp"), ("core", "pgxqp"), ("core", "ltrk")],
)
def test_each_operation_survives_power_cuts(kind: str, operations: str) -> None:
    code, output = run("--kind", kind, "--operations", operations)
    assert (code, f" cuts={operations.count('x')} " in output) == (0, True), output


def test_planted_faults_are_found() -> None:
    code, output = run("--controls")
    assert code == 0, output
    assert output.endswith(f"controls={len(CONTROLS)} missed=0\n"), output


def test_fault_is_reported_with_the_command_that_repeats_it() -> None:
    code, output = run(*FAULT)
    assert code == 1
    assert "the store has turn 1, but must have one of range(2, 3)" in output
    assert (
        "repeat: python -m tests.process.powercut --kind rows --operations ppp --seed 0 "
        "--control journal-is-not-flushed\n"
    ) in output
    assert run(*FAULT)[1].splitlines()[0] == output.splitlines()[0]


def test_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert recorder.unavailable().startswith("no C compiler (cc): install")


@pytest.mark.parametrize(
    ("known", "is_fault"),
    [
        (Known(True, 3, frozenset({1})), False),
        (Known(True, 4, frozenset({1})), True),  # a message is lost
        (Known(True, 3, frozenset({1, 2})), True),  # an acknowledged message is back
        (Known(True, 2, frozenset({1})), True),  # a message was never put
        (Known(True, 3, frozenset({1}), has_other=True), True),  # a queue is lost
    ],
)
def test_core_is_compared_with_what_the_client_knows(
    tmp_path: Path, known: Known, is_fault: bool
) -> None:
    home = tmp_path / "qm"
    store = JournalStore(home, MAP_BYTES, JOURNAL_BYTES)
    client = Manager(store).connect()
    client.ask(m.QueueCreate, "Q")
    client.producer(PRODUCER).put("Q", *(record(body(number, SMALL)) for number in (1, 2, 3)))
    assert client.ack(*client.get("Q", 1)) == []
    kill(store)
    if is_fault:
        with pytest.raises(Fault, match="a client sees"):
            check_core(home, (known, known))
    else:
        check_core(home, (known, known))
