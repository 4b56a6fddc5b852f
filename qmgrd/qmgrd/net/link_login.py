"""The login of a link at the queue manager that it dials."""

from secrets import token_urlsafe

from qmgr_config.link import LinkConfig, LoginConfig
from qmgr_protocol.certificate_login import CertificateLogin
from qmgr_protocol.scram import ClientLogin, ScramFailed
from qmgrd.core.peer import OwnLogin

NONCE_BYTES = 18


def login_of(config: LinkConfig, link: str) -> LoginConfig | None:
    """Returns the login of *link*, or None.

    Raises:
        ValueError: The link has no login, and link.require_login is set.
    """
    found = next((login for login in config.logins if login.manager == link), None)
    logs_in = found is not None and (found.use_certificate or found.password_file is not None)
    if config.require_login and not logs_in:
        raise ValueError(
            f"link.require_login is set, but no login for {link} is configured: add it to "
            "[[link.logins]]"
        )
    return found


def link_login(config: LoginConfig | None) -> OwnLogin | None:
    """Returns a new login for one connection, or None if the link does not log in.

    Raises:
        ValueError: The password file cannot be read, or the password is not valid.
    """
    if config is not None and config.use_certificate:
        return CertificateLogin()
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
