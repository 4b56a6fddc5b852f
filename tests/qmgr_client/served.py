"""A real daemon on a unix socket, in the event loop of the test or in a separate thread."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from qmgr_config.model import Config
from qmgrd.daemon import Daemon
from tests.disk_stores import disk_store


def address_of(directory: Path) -> str:
    """Returns the address of the daemon of *directory*."""
    return f"unix:{directory}/qmgrd.sock"


@asynccontextmanager
async def serve(
    directory: Path, *, tcp: bool = False, name: str = "QM1", **limits: Any
) -> AsyncIterator[str]:
    """Runs a daemon on the store of *directory*, yields its address, and stops it cleanly."""
    config = Config.model_validate(
        {
            "queue_manager": {"name": name, "data_dir": directory},
            "listen": {"tcp": ["127.0.0.1:0"] if tcp else []},
            "store": {"map_bytes": "256 MiB", "free_disk_min_bytes": 0},
            "limits": limits,
        }
    )
    store = disk_store(directory, config.store.map_bytes)
    try:
        daemon = Daemon(config, store)
        task = asyncio.create_task(daemon.run())
        while not daemon.addresses:
            assert not task.done(), task.exception()
            await asyncio.sleep(0)
        try:
            yield daemon.addresses[0]
        finally:
            daemon.stop()
            await task
    finally:
        store.close()


class Server:
    """A daemon in a separate thread."""

    def __init__(self, directory: Path, **limits: Any) -> None:
        self.address = address_of(directory)
        self._directory = directory
        self._limits = limits
        self._started = threading.Event()
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with serve(self._directory, **self._limits):
            self._started.set()
            await self._stopping.wait()

    def __enter__(self) -> "Server":
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
