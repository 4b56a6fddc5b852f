"""Tests that a note from a link has only facts that the user of the link may report."""

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

ALLOWED = [
    (Right.PUT, "OPEN"),
    (Right.PUT, "OPEN@LAX"),
    (Right.FORWARD, "NYC"),
    (Right.FORWARD, "LAX"),
]


def check(right: Right, name: str) -> None:
    """Allows puts on OPEN, and messages of NYC, which is this queue manager, and of LAX."""
    if (right, name) not in ALLOWED:
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


FAILURE = {
    "code": 410,
    "reason": "r",
    "text": "t",
    "queue": "OPEN",
    "us": 1,
    "failed": 2,
    "delivered": 3,
    "left_ms": 4,
    "attempts": [[1, 410, "r", "t", "client"]],
}
WAY = {"hops": ["EWR"], "came": ["EWR"], "retries": 5}


@pytest.mark.parametrize("manager", ["SFO", None, 7])
def test_failures_at_others_are_removed_without_the_right_to_forward(
    monkeypatch: pytest.MonkeyPatch, manager: object
) -> None:
    monkeypatch.setattr(f"{__name__}.ALLOWED", ALLOWED[:2])
    note = FAILURE | WAY | {"manager": manager}
    assert note_after(note) == WAY
    assert note_after(FAILURE) == {}
    assert note_after({"attempts": FAILURE["attempts"]}) == {}


@pytest.mark.parametrize("manager", ["EWR", "LAX", "NYC"])
def test_failures_at_the_sender_or_with_the_right_to_forward_stay(manager: str) -> None:
    note = FAILURE | WAY | {"manager": manager}
    assert note_after(note) == note
    assert note_after(WAY) == WAY


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
    assert note_of(found) == {}
    guarded.owner.ask(m.QueueMove, "Q", "")
    manager.rest()
    assert (guarded.owner.bodies("SECRET"), guarded.owner.bodies("Q")) == ([], [b"1"])


def test_dead_letter_without_the_right_to_put_has_no_forged_failures(
    manager: Manager, app: Client
) -> None:
    guarded = Guarded(manager)
    guarded.user("FAR", "link peer FAR")
    far = Far(manager, user="FAR")
    far.open()
    forged = [[0, {m.EXTRA_NOTE: pack(FAILURE | {"manager": "QM1"})}]]
    far.client.say(m.Put(far.stream, 1, 0, "Q", [message(1)], forged))
    (found,) = guarded.owner.browse("SYSTEM.DEAD.LETTERS")
    note = note_of(found)
    assert (note["code"], note["failed"]) == (ErrorCode.SENDER_NOT_AUTHORIZED, 0)
    assert "attempts" not in note
