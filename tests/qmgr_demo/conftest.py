"""The event loop of the demo."""

import asyncio
from collections.abc import Callable, Mapping


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs each async test only on asyncio's loop, on which the demo runs."""
    return {"asyncio": asyncio.new_event_loop}
