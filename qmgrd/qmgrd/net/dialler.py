"""Dials the peers of links."""

import asyncio
import encodings.idna  # noqa: F401  A name needs it; loaded later, it may find no descriptor.
from collections.abc import Callable

from qmgrd.net.session import Session

DIAL_MAX_S = 10


async def dial(address: str, protocol: Callable[[], Session]) -> str:
    """Connects to ``host:port`` or ``unix:/path``; return why that failed, or nothing."""
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
    except ValueError as error:  # No name of a host: "a..b" has an empty label.
        return f"{address}: {error}"
    return ""
