"""A user may not have the daemon put a report where the user may not put."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right
from qmgrd.core.puts import client_rights
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.unit_of_work import UnitOfWork


@pytest.fixture
def guarded(manager: Manager, app: Client) -> Guarded:
    """A manager with the queues Q, MINE and OTHER, and with users."""
    found = Guarded(manager)
    for queue in ("MINE", "OTHER"):
        found.owner.ask(m.QueueCreate, queue)
    return found


@pytest.fixture
def bob(guarded: Guarded) -> Client:
    return guarded.user("bob", "put queue Q", "put queue MINE", "publish topic mine/#")


def asking(reply_to: object, body: bytes = b"1", uid: tuple[str, int] | None = None) -> bytes:
    """Returns a record that requests a report to *reply_to*."""
    return record(
        body,
        expiry_ms=1_000,
        flags=records.FLAG_REPORT_EXPIRY,
        envelope={records.REPLY_TO: reply_to},
        uid=uid,
    )


def expire(guarded: Guarded) -> None:
    guarded.manager.turn(1_000)
    guarded.manager.rest()


@pytest.mark.parametrize("reply_to", ["OTHER", "NOWHERE", "/topic", "Q@FAR", "SYSTEM.EVENTS", "Q "])
def test_report_where_the_user_may_not_put_is_refused(
    guarded: Guarded, bob: Client, reply_to: str
) -> None:
    (refused,) = bob.put_records("Q", asking(reply_to))
    assert refused.code == ErrorCode.NOT_AUTHORIZED
    assert refused.text == (
        f"the message requests a report, which requires the right to put on its reply_to {reply_to}"
    )
    assert guarded.owner.bodies("Q") == []


def test_other_records_of_the_put_are_stored(guarded: Guarded, bob: Client) -> None:
    batch = [record(b"1"), asking("OTHER"), asking("MINE", b"3"), asking("OTHER"), record(b"5")]
    assert [x.seq_id for x in bob.producer(b"P" * 16).put("Q", *batch)] == [2, 4]
    assert guarded.owner.bodies("Q") == [b"1", b"3", b"5"]
    again = guarded.manager.connect("bob", user="bob")
    value = again.ask(m.ProducerOpen, b"P" * 16, True)
    assert value[1] == 5
    assert [answer[:2] for answer in value[3]] == [
        [2, ErrorCode.NOT_AUTHORIZED],
        [4, ErrorCode.NOT_AUTHORIZED],
    ]


def test_unit_refuses_the_record_alone(guarded: Guarded, bob: Client) -> None:
    unit = UnitOfWork(bob)
    batch = (record(b"1"), asking("OTHER"), record(b"3"))
    assert unit.put_records("Q", *batch) == [ErrorCode.NOT_AUTHORIZED]
    assert unit.commit() == []
    assert guarded.owner.bodies("Q") == [b"1", b"3"]


@pytest.mark.parametrize("reply_to", ["MINE", "/mine/reports"])
def test_report_where_the_user_may_put_is_put(guarded: Guarded, bob: Client, reply_to: str) -> None:
    assert bob.put_records("Q", asking(reply_to)) == []
    expire(guarded)
    assert len(guarded.owner.bodies("MINE")) == (reply_to == "MINE")


def test_report_is_checked_and_put_without_decoding_the_envelope(
    guarded: Guarded, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding a large envelope takes so long that one put would stop the daemon."""
    decoded = list[bytes]()
    decode = records.unpack_envelope

    def counting(data: bytes) -> dict[str, Any]:
        decoded.append(data)
        return decode(data)

    monkeypatch.setattr(records, "unpack_envelope", counting)
    refused = bob.put_records("Q", asking("OTHER"), asking("MINE"))
    assert [x.code for x in refused] == [ErrorCode.NOT_AUTHORIZED]
    expire(guarded)
    assert guarded.manager.queue("MINE").counters.depth == 1
    assert decoded == []


@pytest.mark.parametrize("reply_to", [None, 5, ""])
def test_message_without_a_place_for_its_report_is_stored(bob: Client, reply_to: object) -> None:
    """No report is put for such a message, so no right is needed."""
    assert bob.put_records("Q", asking(reply_to)) == []


def test_reply_queue_needs_no_right_without_a_report(bob: Client) -> None:
    assert bob.put_records("Q", record(b"1", envelope={records.REPLY_TO: "OTHER"})) == []


def test_malformed_record_is_refused_as_without_users(bob: Client) -> None:
    damaged = asking("OTHER")[:-1] + b"x"
    codes = [x.code for x in bob.put_records("Q", b"short", damaged)]
    assert codes == [ErrorCode.RECORD_MALFORMED, ErrorCode.CHECKSUM_MISMATCH]


@pytest.mark.parametrize(
    ("reply_to", "is_kept"),
    [("OTHER", False), ("/FAR@FAR", False), ("Q@THIRD", False), ("MINE", True), ("X@FAR", True)],
)
def test_message_of_a_link_arrives_without_a_report_that_may_not_be_put(
    guarded: Guarded, reply_to: str, is_kept: bool
) -> None:
    guarded.user("FAR", "link peer FAR", "put queue Q", "put queue MINE")
    far = Far(guarded.manager, user="FAR")
    far.open()
    sent = asking(reply_to, uid=("FAR", 1))
    far.send(1, sent)
    (found,) = guarded.owner.browse("Q")
    fields = records.decode(found.record)
    assert fields.flags == (records.FLAG_REPORT_EXPIRY if is_kept else 0)
    assert fields._replace(flags=0) == records.decode(sent)._replace(
        flags=0, expiry_ms=fields.expiry_ms
    )
    expire(guarded)
    assert guarded.owner.bodies("OTHER") == []


def test_right_on_a_reply_queue_is_checked_once_for_a_batch() -> None:
    asked: list[str] = []

    def check(right: Right, name: str) -> None:
        asked.append(name)
        if name == "OTHER":
            raise RequestError(ErrorCode.NOT_AUTHORIZED, "no")

    found = client_rights.refusals(check, [asking("OTHER"), asking("MINE")] * 50)
    assert list(found) == list(range(0, 100, 2))
    assert asked == ["OTHER", "MINE"]
