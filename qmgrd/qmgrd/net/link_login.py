"""The login of a link at the queue manager that it dials."""

from secrets import token_urlsafe

from qmgr_config.link import LinkConfig, LoginConfig
from qmgr_protocol.scram import ClientLogin, ScramFailed

NONCE_BYTES = 18


def login_of(config: LinkConfig, link: str) -> LoginConfig | None:
    """Returns the login of *link*, or None.

    Raises:
        ValueError: The link has no login, and link.require_login is set.
    """
    found = next((login for login in config.logins if login.manager == link), None)
    if found is None and config.require_login:
        raise ValueError(
            f"link.require_login is set, but no login for {link} is configured: add it to "
            "[[link.logins]]"
        )
    return found


def link_login(config: LoginConfig | None) -> ClientLogin | None:
    """Returns a new login for one connection, or None if the link has no user and no password.

    Args:
        logins: The configured logins.
        link: The queue manager at the other end.
        is_required: Whether a link without a login must not dial. Without a login, nothing proves
            which queue manager answers.

    Raises:
        ValueError: The password file cannot be read, or the password is not valid. Or the link has
            no login, but needs one.
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
