"""Why an export fails."""

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
    """The export was interrupted: the text says where, why, and what to do. Complete files stay."""


class ExportUnavailable(ExportFailed):
    """The queue manager to export from cannot be reached."""


class ExportRefused(ExportFailed):
    """The export cannot be done as requested; nothing was changed."""


def failure_of(place: str, error: OSError) -> ExportFailed:
    """Returns the failure for an *error* of the disk, or of the store behind a URL."""
    why = error.strerror or str(error) or type(error).__name__
    hint = _HINTS.get(error.errno or 0, "check that disk")
    return ExportFailed(
        f"{place}: {why}; {hint}, and run it again: it continues after the complete files"
    )
