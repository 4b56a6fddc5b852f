"""The login of a link at the queue manager that it dials."""

from secrets import token_urlsafe

from qmgr_config.address import parse_address
from qmgr_config.link import LinkConfig, LoginConfig
from qmgr_protocol.certificate_login import CertificateLogin
from qmgr_protocol.scram import ClientLogin, ScramFailed
from qmgr_protocol.secret_file import read_password, read_token
from qmgr_protocol.token_login import TokenLogin, check_plain_text
from qmgrd.core.access.token_renewal import OwnLogin
from qmgrd.net.dialler import TLS, UNIX

NONCE_BYTES = 18
# The daemon computes them while it serves nobody else: 50,000 take about 25 ms. Our verifiers have
# 15,000.
ITERATIONS_MAX = 50_000


def login_of(config: LinkConfig, link: str) -> LoginConfig | None:
    """Returns the login of *link*, or None.

    Raises:
        ValueError: The link has no login, and link.require_login is set.
    """
    found = next((login for login in config.logins if login.manager == link), None)
    logs_in = found is not None and (
        found.use_certificate or found.password_file is not None or found.token_file is not None
    )
    if config.require_login and not logs_in:
        raise ValueError(
            f"link.require_login is set, but no login for {link} is configured: add it to "
            "[[link.logins]]"
        )
    return found


def link_login(config: LoginConfig | None, address: str) -> OwnLogin | None:
    """Returns a new login for one connection to *address*, or None if the link does not log in.

    Raises:
        ValueError: The file of the password or the token cannot be read, or others may read it, or
            its contents are not valid, or the token would be sent to another machine without TLS.
    """
    if config is not None and config.use_certificate:
        return CertificateLogin()
    if config is not None and config.token_file is not None:
        path = config.token_file
        if not address.startswith((TLS, UNIX)):
            check_plain_text(parse_address(address).host, address)
        return TokenLogin(read_token(path), lambda: read_token(path))
    if config is None or config.password_file is None:
        return None
    path = config.password_file
    password = read_password(path).removesuffix("\n")
    try:
        nonce = token_urlsafe(NONCE_BYTES)
        return ClientLogin(config.user, password, nonce, iterations_max=ITERATIONS_MAX)
    except ScramFailed as error:
        raise ValueError(f"cannot use the password in {path}: {error}") from None
