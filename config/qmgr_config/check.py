"""Checks of names and paths in the configuration."""

import re
from pathlib import Path

from qmgr_config.units import shown

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def checked_name(value: str) -> str:
    """Returns *value* if it is the name of a queue manager or a user.

    Raises:
        ValueError: *value* is not a name.
    """
    if _NAME.fullmatch(value):
        return value
    raise ValueError(f"{shown(value)} is not a name (1 to 64 letters, digits, '.', '_' and '-')")


def checked_name_or_nothing(value: str) -> str:
    """Returns *value* if it is a name or "".

    Raises:
        ValueError: *value* is neither.
    """
    return checked_name(value) if value else value


def checked_path(value: Path) -> Path:
    """Returns *value* if it can be the path of a directory.

    Raises:
        ValueError: *value* is empty or has a NUL.
    """
    if value != Path() and "\0" not in str(value):
        return value
    raise ValueError(f"{shown(str(value))} is not the path of a directory")
