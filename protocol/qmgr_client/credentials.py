"""The user and the password, or the token, with which a client logs in.

The client uses the first of these that is set:

1. the arguments of connect()
2. the user in the address, as in tls:billing@nyc.example.org:7471, with the password of the
   arguments or of the environment
3. the environment: QMGR_USER, and QMGR_PASSWORD or QMGR_PASSWORD_FILE (a file with the password);
   or QMGR_TOKEN or QMGR_TOKEN_FILE (a file with the token)
4. nothing: the client does not log in

The client reads a password file again at each new connection, so a new password in the file is used
at the next connection. It reads a token file also to renew the token of an open connection. It
refuses both files if other users may read them (secret_file.py).
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from qmgr_client.address import Address
from qmgr_protocol.secret_file import read_password, read_token
from qmgr_protocol.token_login import TokenLogin, check_plain_text, encoded_token

if TYPE_CHECKING:
    from qmgr_protocol.scram import ClientLogin

USER, PASSWORD, PASSWORD_FILE = "QMGR_USER", "QMGR_PASSWORD", "QMGR_PASSWORD_FILE"
TOKEN, TOKEN_FILE = "QMGR_TOKEN", "QMGR_TOKEN_FILE"
NONCE_BYTES = 18
_PASSWORD_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user with a password, or with a file that contains the password.

    Its repr does not show the password.
    """

    user: str
    password: str = field(default="", repr=False)
    password_file: str = ""

    def read(self) -> str:
        """Returns the password.

        Raises:
            ValueError: See :func:`read_file`.
        """
        return read_file(self.password_file) if self.password_file else self.password

    def login(self, server_hash: bytes = b"") -> "ClientLogin":
        """Returns a new login with a new nonce, for one connection.

        Args:
            server_hash: The hash of the queue manager's certificate (tls-server-end-point of
                RFC 5929), or b"" if the connection is not encrypted.

        Raises:
            ValueError: See :func:`read_file`. The user or the password has characters that are not
                allowed.
        """
        # This import takes some 100 ms, and most clients need no login.
        from qmgr_protocol.scram import ClientLogin, ScramFailed

        try:
            nonce = secrets.token_urlsafe(NONCE_BYTES)
            return ClientLogin(self.user, self.read(), nonce, server_hash)
        except ScramFailed as error:
            raise ValueError(f"cannot log in as {self.user}: {error}") from None


@dataclass(frozen=True, slots=True)
class TokenCredentials:
    """A token, or a file that contains the present token.

    Its repr does not show the token.
    """

    token: str = field(default="", repr=False)
    token_file: str = ""

    def read(self) -> bytes:
        """Returns the present token.

        Raises:
            ValueError: Others may read the file, or it cannot be read, or the token is not valid or
                too long.
        """
        if self.token_file:
            return read_token(self.token_file)
        return encoded_token(self.token.encode(), "the arguments or the environment")

    def login(self, server_hash: bytes = b"") -> TokenLogin:
        """Returns a new login for one connection, which reads the file again to renew the token.

        Raises:
            ValueError: See :meth:`read`.
        """
        return TokenLogin(self.read(), self.read if self.token_file else None)

    def check_address(self, address: Address) -> None:
        """Checks that the token would not be sent to another machine in plain text.

        Raises:
            ValueError: *address* needs TLS.
        """
        if not (address.is_tls or address.path):
            check_plain_text(address.host, str(address))


Login: TypeAlias = Credentials | TokenCredentials


def read_file(path: str) -> str:
    """Returns the password in the file *path*, without the line break at its end.

    Raises:
        ValueError: Others may read the file, or it cannot be read, or is empty or too long.
    """
    return checked(read_password(path), f"the password file {path}")


def checked(text: str, source: str) -> str:
    """Returns *text* from *source* as a password, without the line break at its end.

    Raises:
        ValueError: The password is empty or too long.
    """
    password = text.removesuffix("\n").removesuffix("\r")
    if not 0 < len(password) <= _PASSWORD_MAX:
        raise ValueError(f"{source} has {len(password)} characters instead of 1 to {_PASSWORD_MAX}")
    return password


def credentials(
    user: str = "",
    password: str = "",
    password_file: str = "",
    environment: Mapping[str, str] = os.environ,
    in_address: str = "",
) -> Credentials | None:
    """Returns the credentials of the arguments, of the address, or of the *environment*, or None.

    Args:
        in_address: The user that the address names, or "". The *environment* may have the password
            of this user, but then it must not name another user.

    Raises:
        ValueError: A user has no password, or a password has no user, or two passwords are given.
    """
    where = "the arguments"
    if password or password_file:
        user = user or in_address
    elif not user:
        user = environment.get(USER, "")
        if in_address and user not in ("", in_address):
            raise ValueError(
                f"the address names user {in_address}, but {USER} is {user}: give the password "
                f"file of {in_address} as an argument, or omit one of the two users"
            )
        user = in_address or user
        password = environment.get(PASSWORD, "")
        password_file = environment.get(PASSWORD_FILE, "")
        where = f"{USER}, {PASSWORD} and {PASSWORD_FILE}"
        if not (user or password or password_file):
            return None
    if not user:
        raise ValueError(f"a password is given without a user in {where}")
    if bool(password) == bool(password_file):
        raise ValueError(f"give user {user} either a password or a password file in {where}")
    return Credentials(user, password, password_file)


def token_credentials(
    token: str = "", token_file: str = "", environment: Mapping[str, str] = os.environ
) -> TokenCredentials | None:
    """Returns the token of the arguments, or of the *environment*, or None.

    Raises:
        ValueError: A token and a token file are given, or the *environment* has a password as well.
    """
    where = "the arguments"
    if not (token or token_file):
        token, token_file = environment.get(TOKEN, ""), environment.get(TOKEN_FILE, "")
        where = f"{TOKEN} and {TOKEN_FILE}"
        if not (token or token_file):
            return None
        if any(environment.get(name) for name in (USER, PASSWORD, PASSWORD_FILE)):
            raise ValueError(f"the environment has {where}, but also {USER}: remove one of them")
    if token and token_file:
        raise ValueError(f"give either a token or a token file in {where}")
    return TokenCredentials(token, token_file)
