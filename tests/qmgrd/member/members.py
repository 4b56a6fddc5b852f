"""Members of the queue manager NYC that share a journal, on the event loop of a test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from qmgr_client.aio import connect
from qmgr_config.model import Config
from qmgrd.member.member import MemberProcess
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.token_keys import TokenKeys
from qmgrd.process.notify import Notifier

WAIT_MS = 60_000  # a deadline, not a measurement: the machine may be busy


def config(directory: Path, url: str, name: str, **journal: Any) -> Config:
    sections = {
        "queue_manager": {"name": "NYC", "data_dir": directory},
        "listen": {"tcp": []},
        "journal": {"url": url, "member": name} | journal,
        "store": {"map_bytes": 1 << 28},
    }
    return Config.model_validate(sections)


class Running:
    """A member that runs as a task."""

    def __init__(self, directory: Path, url: str, name: str, **journal: Any) -> None:
        self.address = f"unix:{directory}/qmgrd.sock"
        found = config(directory, url, name, **journal)
        files = TlsFiles(found.tls), TokenKeys(found.auth.tokens)
        self.member = MemberProcess(found, Notifier({}), *files)
        self.task = asyncio.create_task(self.member.run())

    async def stop(self) -> None:
        """Stops the member in order."""
        self.member.stop()
        await self.task

    async def cut_off(self) -> None:
        """Ends the member without its last turns. Its session with the server ends."""
        self.task.cancel()
        await asyncio.wait([self.task])


@asynccontextmanager
async def running(directory: Path, url: str, name: str, **journal: Any) -> AsyncIterator[Running]:
    found = Running(directory, url, name, **journal)
    try:
        yield found
    finally:
        if not found.task.done():
            await found.stop()


async def journal_of(*members: Running, is_seen: Callable[[dict[str, Any]], bool]) -> Any:
    """Returns the journal in the status, as soon as *is_seen* is true for it."""
    async with asyncio.timeout(WAIT_MS / 1000), client_of(*members) as client:
        while True:
            found = dict((await client.admin.status())["journal"])
            if is_seen(found):
                return found
            await asyncio.sleep(0.05)


def client_of(*members: Running) -> Any:
    """Returns a client of the active one of *members*."""
    addresses = ",".join(member.address for member in members)
    return connect(addresses, wait_ms=WAIT_MS, give_up_ms=WAIT_MS)


async def active_of(*members: Running) -> str:
    """Returns the name of the active one of *members*."""
    found = await journal_of(*members, is_seen=lambda journal: True)
    return str(found["member"])


async def bodies(*members: Running) -> list[bytes]:
    """Returns the bodies of the messages on the queue Q."""
    async with client_of(*members) as client:
        return [message.body async for message in client.browse("Q")]


async def put(body: bytes, *members: Running) -> None:
    """Puts a message on the queue Q."""
    async with client_of(*members) as client:
        await client.admin.queue_ensure("Q")
        await client.put("Q", body)
