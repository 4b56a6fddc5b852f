"""The login of a link at the queue manager that it dials."""

from collections.abc import Sequence
from secrets import token_urlsafe

from qmgr_config.model import LoginConfig
from qmgr_protocol.scram import ClientLogin, ScramFailed

NONCE_BYTES = 18


def login_of(logins: Sequence[LoginConfig], link: str) -> LoginConfig | None:
    """Returns the login of *link*, or None."""
    return next((login for login in logins if login.manager == link), None)


def link_login(config: LoginConfig | None) -> ClientLogin | None:
    """Returns a new login for one connection, or None if the link has no user and no password.

    Raises:
        ValueError: The password file cannot be read, or the password is not valid.
    """
    if config is None or config.password_file is None:
        return None
    path = config.password_file
    try:
        password = path.read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        raise ValueError(f"cannot read the password file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"cannot read the password file {path}: it is not UTF-8") from None
    try:
        return ClientLogin(config.user, password, token_urlsafe(NONCE_BYTES))
    except ScramFailed as error:
        raise ValueError(f"cannot use the password in {path}: {error}") from None
