"""The fixtures of qmgr_tools that run qmctl, for the tests of the proxy."""

from tests.qmgr_tools.conftest import (
    at,
    bad,
    daemon,
    on_terminal,
    own_daemon,
    parked,
    qm,
    qmctl,
    queue,
    topic,
    way,
)

__all__ = [
    "at",
    "bad",
    "daemon",
    "on_terminal",
    "own_daemon",
    "parked",
    "qm",
    "qmctl",
    "queue",
    "topic",
    "way",
]
