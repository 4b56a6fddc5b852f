"""Tests that a note from a link names no queue on which the user of the link may not put."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right
from qmgrd.core.puts import note_right
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.unit_of_work import note_of


def check(right: Right, name: str) -> None:
    """Allows puts on OPEN of this queue manager, and of LAX."""
    if (right, name) not in ((Right.PUT, "OPEN"), (Right.PUT, "OPEN@LAX")):
        raise RequestError(ErrorCode.NOT_AUTHORIZED, "not allowed")


def note_after(note: dict[str, Any]) -> Any:
    put = m.Put(1, 1, 0, "OPEN", [b"x"], [[0, {m.EXTRA_NOTE: note, m.EXTRA_EXPIRY_MS: 7}]])
    ((index, extra),) = note_right.without_refused(check, put, "EWR", "NYC")
    assert (index, extra[m.EXTRA_EXPIRY_MS]) == (0, 7)
    return extra[m.EXTRA_NOTE]


@pytest.mark.parametrize("manager", ["NYC", "LAX"])
@pytest.mark.parametrize("queue", ["SECRET", "", "?", "OPEN@NYC@NYC"])
def test_original_queue_without_the_right_to_put_is_removed(manager: str, queue: str) -> None:
    assert note_after({"code": 410, "queue": queue, "manager": manager}).get("queue", "") == ""
    assert note_after({"queue": queue, "manager": manager}).get("queue", "") == ""


@pytest.mark.parametrize(
    ("queue", "manager"), [("OPEN", "NYC"), ("OPEN", "LAX"), ("SECRET", "EWR")]
)
def test_original_queue_with_the_right_or_at_the_peer_stays(queue: str, manager: str) -> None:
    note = {"code": 410, "queue": queue, "manager": manager, "attempts": []}
    assert note_after(note) == note


def test_link_cannot_name_another_queue_to_which_an_operator_would_return_a_message(
    manager: Manager, app: Client
) -> None:
    guarded = Guarded(manager)
    guarded.owner.ask(m.QueueCreate, "SECRET")
    guarded.user("FAR", "link peer FAR", "put queue Q")
    far = Far(manager, user="FAR")
    far.open()
    forged = [[0, {m.EXTRA_NOTE: pack({"code": 410, "queue": "SECRET", "manager": "QM1"})}]]
    far.client.say(m.Put(far.stream, 1, 0, "Q", [message(1)], forged))
    (found,) = guarded.owner.browse("Q")
    assert note_of(found) == {"code": 410}
    guarded.owner.ask(m.QueueMove, "Q", "")
    manager.rest()
    assert (guarded.owner.bodies("SECRET"), guarded.owner.bodies("Q")) == ([], [b"1"])
