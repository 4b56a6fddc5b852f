"""Tests that a start raises the limit of open files as far as allowed."""

import resource
import subprocess
import sys

import pytest

from qmgr_config.model import ListenConfig
from qmgrd.process.descriptors import needed

RAISE = """
import resource
from qmgr_config.model import ListenConfig
from qmgrd.process.descriptors import raise_limit
raise_limit(ListenConfig())
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def raised(soft: int, hard: int) -> tuple[list[int], str]:
    """Returns both limits after a process has raised them, and the log of that process."""
    done = subprocess.run(
        [sys.executable, "-c", RAISE],
        text=True,
        capture_output=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )
    *logged, limits = done.stdout.splitlines()
    return [int(number) for number in limits.split()], "\n".join(logged)


def test_soft_limit_is_raised_to_what_connections_need() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4_000:
        pytest.skip("this machine allows too few files")
    assert needed(ListenConfig()) > ListenConfig().connections_max
    assert raised(64, 4_000) == ([needed(ListenConfig()), 4_000], "")


def test_limit_that_is_high_enough_stays() -> None:
    high = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if high < needed(ListenConfig()):
        pytest.skip("this machine allows too few files")
    assert raised(high, high) == ([high, high], "")


def test_hard_limit_that_is_too_low_is_logged() -> None:
    limits, logged = raised(64, 100)
    assert limits == [100, 100]
    assert "too few open files are allowed" in logged
    assert "listen.connections_max" in logged
