"""Connects a link to its peer, with the configured login and encryption."""

from collections.abc import Callable

from qmgr_config.link import LinkConfig
from qmgrd.core.access.token_renewal import OwnLogin
from qmgrd.core.context.context import Dial
from qmgrd.core.peer import Peer
from qmgrd.net.dialler import TLS, dial
from qmgrd.net.link_login import link_login, login_of
from qmgrd.net.session import SessionHost, SocketSession
from qmgrd.net.tls_service import TlsService


async def dial_link(
    effect: Dial,
    config: LinkConfig,
    host: SessionHost,
    tls: TlsService,
    new_peer: Callable[[SocketSession, Dial, OwnLogin | None], Peer],
) -> str:
    """Connects to the peer of a link. Returns the reason for a failure, or "".

    Args:
        effect: The link and the address.
        config: The logins of all links.
        host: The owner of the new session.
        tls: The TLS of the daemon.
        new_peer: A function that returns the peer of a new session.
    """
    try:
        login = login_of(config, effect.link)
        own_login = link_login(login, effect.address)
    except ValueError as error:
        return f"{effect.address}: {error}"

    def make_peer(session: SocketSession) -> Peer:
        return new_peer(session, effect, own_login)

    if effect.address.startswith(TLS):
        return await tls.dial(effect.address, login, make_peer)
    return await dial(effect.address, lambda: SocketSession(host, make_peer))
