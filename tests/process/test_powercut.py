"""Tests of the store after simulated power cuts, and of the simulation.

`make powercut` checks many more states.
"""

import subprocess
import sys

import pytest

from tests.process.powercut import recorder
from tests.process.powercut.controls import CONTROLS

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
    [("rows", "plcsjxrp"), ("rows", "padfkxp"), ("core", "pgxqp"), ("core", "ltcsrk")],
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
