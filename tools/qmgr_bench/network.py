"""Proxies for the benchmark. Their event loop runs in a thread, because the benchmark blocks."""

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from qmgr_proxy.pipe import Shape
from qmgr_proxy.proxy import Ear, Proxy

Value = TypeVar("Value")


class Network:
    """A container of proxies. Invariant: inside ``with``, all proxies run on a loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._proxies: list[Proxy] = []

    def __enter__(self) -> "Network":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            for proxy in self._proxies:
                asyncio.run_coroutine_threadsafe(proxy.close(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def proxy(self, address: str, shape: Shape | None = None, ear: Ear | None = None) -> Proxy:
        """Starts and returns a proxy that listens for connections to *address* (HOST:PORT)."""
        host, _, port = address.rpartition(":")

        async def start() -> Proxy:
            return await Proxy(host, int(port), shape, ear).start()

        proxy = asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        self._proxies.append(proxy)
        return proxy

    def call(self, function: Callable[[], Value]) -> Value:
        """Calls *function* on the loop, where it may control proxies, and returns the result."""

        async def called() -> Value:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()
