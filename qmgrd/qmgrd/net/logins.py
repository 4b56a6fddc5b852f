"""The logins of the daemon's connections, with the facts and random numbers of the shell."""

import time
from collections.abc import Callable
from secrets import token_urlsafe

import structlog

from qmgr_config.model import AuthConfig
from qmgrd.core.access.login import KnownUsers, Login, Logins
from qmgrd.core.access.origin import Origin
from qmgrd.core.access.rule import Rules
from qmgrd.net.connection_limits import is_of_this_machine
from qmgrd.net.session import SocketSession

NONCE_BYTES = 18  # random bytes in the nonce of a login

log = structlog.get_logger()


def logins_of(users: Callable[[], KnownUsers], secret: bytes, config: AuthConfig) -> Logins:
    """Returns the logins of a daemon. Logs the rules that have no effect."""
    logins = Logins(users, secret, config, lambda: time.time_ns() // 1_000_000)
    log_unreachable(logins.rules)
    return logins


def login_at(logins: Logins, session: SocketSession) -> Login:
    """Returns the login of a new connection."""
    origin = Origin(session.origin, is_of_this_machine(session.origin), session.is_owner)
    return Login(logins, origin, token_urlsafe(NONCE_BYTES))


def log_unreachable(rules: Rules) -> None:
    """Logs each rule that no connection can reach, because an earlier rule fits first."""
    for rule, earlier in rules.unreachable():
        log.warning(
            "a rule of auth.access is unreachable: an earlier rule fits all its connections",
            rule=rule.number,
            earlier=earlier.number,
        )
