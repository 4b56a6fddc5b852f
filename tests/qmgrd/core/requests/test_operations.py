"""Each message that may come in has somebody who answers it."""

from qmgr_protocol.states import FROM_DIALLER
from qmgrd.core.requests.operations import operations
from qmgrd.core.requests.rights import RIGHTS
from tests.qmgrd.core.harness import Manager


def test_each_operation_has_a_noun_that_answers_it_and_a_right() -> None:
    found = operations(Manager().turns.broker)
    assert found.keys() == RIGHTS.keys()
    assert {kind for kind in FROM_DIALLER if kind in RIGHTS} <= found.keys()
