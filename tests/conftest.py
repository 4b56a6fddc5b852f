"""What all tests share: both event loops, repeatable Hypothesis, --rewrite."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop
from hypothesis import Phase, settings

# "ci" tries the same examples at each run; `--hypothesis-profile explore` looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2_000, deadline=None)
# "mutate" is content with any example that fails: `make mutate` only asks whether one does.
found_is_enough = (Phase.explicit, Phase.generate)
settings.register_profile("mutate", derandomize=True, deadline=None, phases=found_is_enough)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="accept new conversations, pages and generated modules",
    )


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs each async test on both loops."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests that need Spark first.

    So one worker of pytest-xdist has them all, and they share a session: others steal from the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
