"""The fixtures for qmctl, which these tests share with the tests of qmgr_tools."""

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
