"""The login of a link at the queue manager that it dials."""

from collections.abc import Callable, Sequence
from secrets import token_urlsafe
from typing import TypeAlias

from qmgr_config.model import LoginConfig
from qmgr_protocol.scram import ClientLogin, ScramFailed

NONCE_BYTES = 18


# Returns a new login for one connection, given the hash of the peer's certificate (RFC 5929), or
# b"" if the connection is not encrypted.
NewLogin: TypeAlias = Callable[[bytes], ClientLogin]


def link_login(logins: Sequence[LoginConfig], link: str) -> NewLogin | None:
    """Returns a function that makes logins of *link*, or None if the link has no login.

    Raises:
        ValueError: The password file cannot be read, or the password is not valid.
    """
    config = next((login for login in logins if login.manager == link), None)
    if config is None:
        return None
    path = config.password_file
    try:
        password = path.read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        raise ValueError(f"cannot read the password file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"cannot read the password file {path}: it is not UTF-8") from None
    user = config.user

    def new_login(server_hash: bytes) -> ClientLogin:
        return ClientLogin(user, password, token_urlsafe(NONCE_BYTES), server_hash)

    try:
        new_login(b"")
    except ScramFailed as error:
        raise ValueError(f"cannot use the password in {path}: {error}") from None
    return new_login
