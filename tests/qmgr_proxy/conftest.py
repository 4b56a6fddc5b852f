"""The tests of the proxy run qmctl as those of qmgr_tools do."""

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
