"""The errors of an export."""

import errno

_HINTS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EACCES: "give this user write access, or choose another directory",
    errno.EPERM: "give this user write access, or choose another directory",
    errno.EROFS: "choose a writable directory",
    errno.ENOTDIR: "choose a path below a directory",
    errno.ENAMETOOLONG: "choose a shorter path",
}


class ExportFailed(Exception):
    """The export was interrupted.

    The text states the file or queue manager, the reason, and what to do. Complete files remain.
    """


class ExportUnavailable(ExportFailed):
    """The export failed because the queue manager cannot be reached."""


class ExportRefused(ExportFailed):
    """The export cannot be done as requested. Nothing was changed."""


def failure_of(place: str, error: OSError) -> ExportFailed:
    """Returns the exception for an *error* of the disk or of the storage behind a URL."""
    why = error.strerror or str(error) or type(error).__name__
    hint = _HINTS.get(error.errno or 0, "check the disk")
    return ExportFailed(
        f"{place}: {why}; {hint}, and run the export again: it continues after the complete files"
    )
