"""Dials the peers of links."""

import asyncio
import encodings.idna  # noqa: F401  Host names need this module. A later import might find no free descriptor.
from collections.abc import Callable

from qmgr_protocol.tls import TlsFailed, TlsOptions
from qmgrd.net.session import SocketSession
from qmgrd.net.tls_channel import TlsChannel

DIAL_MAX_S = 10
UNIX, TLS = "unix:", "tls:"


async def dial(address: str, protocol: Callable[[], SocketSession]) -> str:
    """Connects to ``host:port``, ``tls:host:port`` or ``unix:/path``.

    Returns the reason for the failure, or "". A failure of TLS comes later, from the session.
    """
    loop = asyncio.get_running_loop()
    sessions: list[SocketSession] = []  # those whose dial has not succeeded

    def new_session() -> SocketSession:
        sessions.append(protocol())
        return sessions[-1]

    try:
        async with asyncio.timeout(DIAL_MAX_S):
            if address.startswith(UNIX):
                await loop.create_unix_connection(new_session, address.removeprefix(UNIX))
            else:
                host, port = host_and_port(address)
                await loop.create_connection(new_session, host, port)
        sessions.clear()
    except TimeoutError:
        return f"{address}: no answer within {DIAL_MAX_S} s"
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    except ValueError as error:  # Invalid host name: "a..b" has an empty label.
        return f"{address}: {error}"
    finally:
        # If the time ends just after the connect, uvloop closes the transport without this call.
        for session in sessions:
            loop.call_soon(session.connection_lost, None)
    return ""


def host_and_port(address: str) -> tuple[str, int]:
    """Returns the host and the port of a TCP *address*, with or without TLS."""
    host, _, port = address.removeprefix(TLS).rpartition(":")
    return host.strip("[]"), int(port)


def tls_channel(address: str, options: TlsOptions) -> TlsChannel:
    """Returns a new channel for a connection to *address*.

    Raises:
        TlsFailed: A file of *options* cannot be used, or the name in *address* is not valid.
    """
    name = options.server_name or host_and_port(address)[0]
    try:
        return TlsChannel(options.context(), is_server=False, name=name)
    except ValueError as error:  # Invalid host name: "a..b" has an empty label.
        raise TlsFailed(f"{name}: {error}") from error
