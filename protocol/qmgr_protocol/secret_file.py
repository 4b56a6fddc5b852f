"""Files with a secret: a password, a token, or the key of a certificate.

A client and the daemon read them in the same way. As ssh does with its keys, they refuse a file
that other users may read.
"""

import stat
import sys
from pathlib import Path

from qmgr_protocol.token_login import encoded_token

FILE_MAX_BYTES = 16_384
ROOT = 0


def check_mode(path: str | Path, noun: str) -> None:
    """Checks that only its owner, or root and the group of the reader, may use the file *path*.

    Args:
        path: The path of the file. A pipe is accepted, because a shell makes one for <(command).
        noun: The words for the file, such as "password file".

    Raises:
        ValueError: Other users may read or write the file.
        OSError: The file does not exist, or cannot be reached.
    """
    found = Path(path).stat()
    if sys.platform == "win32" or not stat.S_ISREG(found.st_mode):
        return
    # Secrets that a container receives belong to root and are readable by the group of its user.
    allowed = 0o640 if found.st_uid == ROOT else 0o600
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~allowed & 0o077:
        mounted = ", or set defaultMode: 0440 of its Kubernetes secret"
        raise ValueError(
            f"other users may read the {noun} {path} (mode {mode:04o}): run chmod {allowed:o} "
            f"{path}{mounted if found.st_uid == ROOT else ''}"
        )


def read_password(path: str | Path) -> str:
    """Returns the text in the password file *path*.

    Raises:
        ValueError: The file cannot be read, is not UTF-8, or other users may read it.
    """
    try:
        return _read(path, "password file").decode()
    except UnicodeDecodeError:
        raise ValueError(f"cannot read the password file {path}: it is not UTF-8") from None


def read_token(path: str | Path) -> bytes:
    """Returns the present token in the file *path*.

    Raises:
        ValueError: The file cannot be read, has no valid token, or other users may read it.
    """
    return encoded_token(_read(path, "token file"), f"the token file {path}")


def _read(path: str | Path, noun: str) -> bytes:
    try:
        check_mode(path, noun)
        with Path(path).open("rb") as file:
            return file.read(FILE_MAX_BYTES)
    except OSError as error:
        raise ValueError(f"cannot read the {noun} {path}: {error.strerror}") from None
