"""Settings for all tests: both event loops, repeatable Hypothesis, SIGINT, --rewrite."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from tests.postgres import Postgres

# "ci" tries the same examples in each run. `--hypothesis-profile explore` tries new ones. No
# example fails because the machine is busy.
on_a_busy_machine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", on_a_busy_machine, derandomize=True)
settings.register_profile("explore", on_a_busy_machine, max_examples=2_000)
# "mutate" stops at the first failing example: `make mutate` needs no more than one.
found_is_enough = (Phase.explicit, Phase.generate)
settings.register_profile("mutate", on_a_busy_machine, derandomize=True, phases=found_is_enough)
settings.load_profile("ci")

# Images of containers often set this variable. Each of the thousands of processes that tests start
# would then compile all modules again, which takes longer than most tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Each of the many daemons that tests start would otherwise write a journal of 32 MiB.
os.environ.setdefault("QMGRD_DURABILITY__JOURNAL_BYTES", "1 MiB")

# A shell without job control starts background commands with SIGINT ignored. Child processes
# inherit this setting, and tests that interrupt a command would then fail.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="accept new conversations, pages and generated modules",
    )


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs each async test on both loops."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without garbage collections, which took a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the tests that need Spark to the front.

    One pytest-xdist worker then runs all of them in one session, because other workers steal tests
    from the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def postgres() -> Iterator["Postgres"]:
    """Yields a PostgreSQL server, which all tests of this process share."""
    from tests.postgres import Postgres, unavailable  # Most tests do not need psycopg.

    if reason := unavailable():
        pytest.skip(reason)
    with Postgres() as server:
        yield server


@pytest.fixture
def journal_url(postgres: "Postgres") -> Iterator[str]:
    """Yields the address of an empty database, which is deleted after the test."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)
