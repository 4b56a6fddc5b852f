"""Dials the peers of links."""

import asyncio
import encodings.idna  # noqa: F401  Host names need this module. A later import might find no free descriptor.
from collections.abc import Callable

from qmgrd.net.session import SocketSession

DIAL_MAX_S = 10


async def dial(address: str, protocol: Callable[[], SocketSession]) -> str:
    """Connects to ``host:port`` or ``unix:/path``. Returns the reason for the failure, or ""."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DIAL_MAX_S):
            if address.startswith("unix:"):
                await loop.create_unix_connection(protocol, address.removeprefix("unix:"))
            else:
                host, _, port = address.rpartition(":")
                await loop.create_connection(protocol, host.strip("[]"), int(port))
    except TimeoutError:
        return f"{address}: no answer within {DIAL_MAX_S} s"
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    except ValueError as error:  # Invalid host name: "a..b" has an empty label.
        return f"{address}: {error}"
    return ""
