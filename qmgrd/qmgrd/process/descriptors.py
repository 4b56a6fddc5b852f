"""Raises the limit of open files to the number that the configured connections need."""

import resource

import structlog

from qmgr_config.model import UNIX_PLACES, ListenConfig

OTHERS = 128  # descriptors for the store, log, listeners, dials, snapshots and closing connections

log = structlog.get_logger()


def needed(listen: ListenConfig) -> int:
    """Returns the number of descriptors that a daemon may need."""
    greetings = 2 * listen.greetings_max + listen.greetings_per_address_max
    return listen.connections_max + UNIX_PLACES + greetings + OTHERS


def raise_limit(listen: ListenConfig) -> None:
    """Raises the soft limit to the needed number, or as far as the system allows.

    Logs a warning if the limit is too low.
    """
    wanted = needed(listen)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        log.warning(
            "too few open files are allowed: connections may have to wait",
            allowed=most,
            needed=wanted,
            do="raise LimitNOFILE, or lower listen.connections_max",
        )
