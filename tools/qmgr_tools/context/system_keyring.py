"""Passwords of contexts in the keyring of the operating system or the desktop.

The package ``keyring`` is optional, and imported only here. The entry of a context has a service,
which the file of contexts names, and the name of the user.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qmgr_tools.cli.failure import Exit, Failure

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

INSTALL = "install it with: pip install 'qmgrd[keyring]', or omit --keyring"
UNLOCK = 'start or unlock the keyring, or log in again without "--keyring"'


def service_of(context: str) -> str:
    """Returns the service of the entry of a *context*."""
    return f"qmctl {context}"


def keep(doing: str, service: str, user: str, password: str) -> None:
    """Stores the password of *user*, and checks that the keyring returns it.

    Raises:
        Failure: FAILED if no keyring is installed or usable, or it does not store passwords.
    """
    with _keyring(doing) as keyring:
        keyring.set_password(service, user, password)
        if keyring.get_password(service, user) == password:
            return
    raise Failure(Exit.FAILED, f"cannot {doing}", "the keyring stores no passwords", UNLOCK)


def read(doing: str, service: str, user: str) -> str:
    """Returns the password of *user*.

    Raises:
        Failure: FAILED if no keyring is installed or usable, or it has no such password.
    """
    with _keyring(doing) as keyring:
        found = keyring.get_password(service, user)
    if found is not None:
        return found
    why = f'the keyring has no password of {user} in "{service}"'
    raise Failure(Exit.FAILED, f"cannot {doing}", why, "log in again: qmctl login --keyring")


def forget(service: str, user: str) -> None:
    """Deletes the password of *user*, if there is one.

    Raises:
        Failure: FAILED if no keyring is installed or usable.
    """
    with _keyring("delete the stored password") as keyring:
        if keyring.get_password(service, user) is not None:
            keyring.delete_password(service, user)


@contextmanager
def _keyring(doing: str) -> Iterator["KeyringBackend"]:
    """Yields the keyring that the package ``keyring`` selects. Errors of the block are failures."""
    what = f"cannot {doing}"
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        why = "the package keyring is not installed"
        raise Failure(Exit.FAILED, what, why, INSTALL) from None
    try:
        yield keyring.get_keyring()
    except KeyringError as error:  # For example, no keyring runs, or the user did not unlock it.
        why = str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__
        raise Failure(Exit.FAILED, what, f"no keyring is usable: {why}", UNLOCK) from None
