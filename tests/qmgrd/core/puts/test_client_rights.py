"""A client may not put messages in the name of a queue manager without the right to forward them.

Otherwise, it could make the messages of that queue manager count as duplicates, and block the link
to a queue manager that does not accept them.
"""

import pytest

from qmgr_client.key import uid_of
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.unit_of_work import UnitOfWork


@pytest.fixture
def guarded(manager: Manager, app: Client) -> Guarded:
    """A manager with the queue Q, and with users."""
    found = Guarded(manager)
    found.owner.ask(m.LinkCreate, "FAR", {"addresses": ["far:7471"]})
    return found


@pytest.fixture
def bob(guarded: Guarded) -> Client:
    return guarded.user(
        "bob", "put queue Q", "put queue Q@FAR", "publish topic t", "forward peer L*"
    )


@pytest.mark.parametrize("queue", ["Q", "Q@FAR", "/t"])
@pytest.mark.parametrize("origin", ["EWR", "QM1", "key.1", "ALAX"])
def test_uid_of_another_needs_the_right_to_forward(
    guarded: Guarded, bob: Client, queue: str, origin: str
) -> None:
    (refused,) = bob.put_records(queue, record(b"1", uid=(origin, 1)))
    assert refused.code == ErrorCode.NOT_AUTHORIZED
    assert refused.text == (
        f"user bob may not do this: the right to forward on peer {origin} is required"
    )


@pytest.mark.parametrize("uid", [("LAX", 7), uid_of("invoice 4711"), uid_of("a-1"), None])
def test_own_message_key_and_granted_origin_are_stored(
    guarded: Guarded, bob: Client, uid: tuple[str, int] | None
) -> None:
    assert not bob.put_records("Q", record(b"1", uid=uid))
    assert guarded.owner.bodies("Q") == [b"1"]


def test_only_the_records_without_the_right_are_refused(guarded: Guarded, bob: Client) -> None:
    batch = [record(b"1"), record(b"2", uid=("EWR", 1)), record(b"3", uid=("LAX", 1))]
    assert [x.seq_id for x in bob.producer(b"P" * 16).put("Q", *batch)] == [2]
    assert guarded.owner.bodies("Q") == [b"1", b"3"]


def test_unit_refuses_the_record_alone(guarded: Guarded, bob: Client) -> None:
    unit = UnitOfWork(bob)
    batch = record(b"1"), record(b"2", uid=("EWR", 1))
    assert unit.put_records("Q", *batch) == [ErrorCode.NOT_AUTHORIZED]
    assert not unit.commit()
    assert guarded.owner.bodies("Q") == [b"1"]


def test_administrator_needs_no_right(guarded: Guarded) -> None:
    assert not guarded.owner.put_records("Q", record(b"1", uid=("EWR", 1)))


def test_incomplete_record_is_refused_as_such(guarded: Guarded, bob: Client) -> None:
    (refused,) = bob.put_records("Q", record(b"1", uid=("EWR", 1))[:20])
    assert refused.code == ErrorCode.RECORD_MALFORMED
