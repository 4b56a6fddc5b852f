"""Makes a process run out of file descriptors."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def none_left(but: int = 0) -> Iterator[None]:
    """Lets the process open *but* more files. All further opens fail with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_fd = os.open(os.devnull, os.O_RDONLY)
    os.close(next_fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_fd + but, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
