"""Tests of the status message of an unfinished group."""

import pytest

from qmgr_client.groups import status as group_status
from qmgr_client.groups.status import GroupRun, GroupStatus
from qmgr_client.message import NOWHERE, Message
from qmgr_protocol.errors import ErrorCode, RequestError

GROUP = b"g" * 24
RUN = GroupRun("put_group", "Q", "k")
SAID = b'"verb": "put_group", "queue": "Q", "name": "k"'


def message(body: bytes) -> Message:
    return Message(body, None, 4, b"k", {}, "STATUS", 0, 0, 0, 0, b"", 3, NOWHERE)


def test_status_that_is_put_can_be_read() -> None:
    """E25: An encoded status message is decoded to the same status."""
    status = GroupStatus(GROUP, 999_999_999)
    outgoing = group_status.outgoing(RUN, status)
    assert outgoing.correlation_id == b"k"
    assert outgoing.persistent
    assert group_status.read(message(outgoing.body)) == (RUN, status)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"7",
        b"{}",
        b'{"group": "%s", "number": 1}' % GROUP.hex().encode(),
        b'{%s, "group": "67", "number": 1}' % SAID,
        b'{%s, "group": 7, "number": 1}' % SAID,
        b'{%s, "group": "%s", "number": 0}' % (SAID, GROUP.hex().encode()),
        b'{%s, "group": "%s", "number": true}' % (SAID, GROUP.hex().encode()),
        b'{%s, "group": "%s", "number": 1000000000}' % (SAID, GROUP.hex().encode()),
        b"\xff",
    ],
)
def test_message_that_is_not_a_status_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError, match="is not the status of a group") as caught:
        group_status.read(message(body))
    assert caught.value.code == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize("name", ["", "x" * 65, "x" * 300, "ü" * 33, b"x", None])
def test_name_that_fits_no_correlation_id_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="must have 1 to 64 bytes") as caught:
        _ = GroupRun("put_group", "Q", name).key
    assert len(caught.value.text) < 150


def test_name_is_the_correlation_id() -> None:
    assert GroupRun("put_group", "Q", "ü" * 32).key == "ü".encode() * 32


def test_claim_is_that_of_the_verb_the_queue_and_the_name() -> None:
    runs = [GroupRun(*words) for words in (("put_group", "Q", "a"), ("put_group", "Qa", ""))]
    runs += [
        GroupRun("get_group", "Q", "a"),
        GroupRun("put_group", "Q", "b"),
        GroupRun("put_group", "R", "a"),
    ]
    assert len({run.claim for run in runs}) == len(runs)
    assert GroupRun("put_group", "Q", "a").claim == runs[0].claim
    assert all(run.claim.timestamp == 0 for run in runs), "a UID other than a key needs a right"
