"""What keeps an export from being made."""

import errno

_HINTS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EACCES: "let this user write there, or choose another place",
    errno.EPERM: "let this user write there, or choose another place",
    errno.EROFS: "choose a place that can be written",
    errno.ENOTDIR: "choose a path below a directory",
    errno.ENAMETOOLONG: "choose a shorter path",
}


class ExportFailed(Exception):
    """It stopped: where, why, what to do. What was written whole stays, and is gone on from."""


class ExportUnavailable(ExportFailed):
    """The queue manager that was to be exported cannot be reached."""


class ExportRefused(ExportFailed):
    """It was asked for what cannot be; nothing was changed."""


def failure_of(place: str, error: OSError) -> ExportFailed:
    """Returns what is said of an *error* of the disk, or of the store behind a URL."""
    why = error.strerror or str(error) or type(error).__name__
    hint = _HINTS.get(error.errno or 0, "look at that disk")
    return ExportFailed(f"{place}: {why}; {hint}, and run it again: it goes on from what is whole")
