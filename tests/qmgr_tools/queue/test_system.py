"""Tests of the names of the reserved queues."""

from qmgr_tools.queue import system
from qmgrd.core.catalogue import system as daemon


def test_names_are_those_of_the_daemon() -> None:
    assert daemon.PREFIX == system.PREFIX
    assert set(system.QUEUES) == set(daemon.ATTRIBUTES)
