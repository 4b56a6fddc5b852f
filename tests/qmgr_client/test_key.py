"""Tests of keys and their UIDs. A real daemon refuses a second put with the same key."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import Outgoing, QueueManager, RequestError, connect
from qmgr_client.key import Key, uid_of
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.name import is_name
from qmgr_protocol.record import Uid
from tests.qmgr_client.served import serve

INVOICE = uuid.UUID("c0ffee00-1234-5678-9abc-def012345678")
LONG = "x" * 61  # With the prefix, this key is longer than the limit of a name.


@pytest.mark.parametrize(
    ("key", "uid"),
    [
        ("invoice-4711", "key.invoice-4711.0"),
        (INVOICE, f"key.{INVOICE}.0"),
        ("x" * 60, f"key.{'x' * 60}.0"),
        ("Müller 7", "sha256.XLvt-YKdGB100lBJFRyINzMtD1HeEk1iu38W6g5iwUA.0"),
    ],
)
def test_uid_of_a_key_stays_as_it_is(key: Key, uid: str) -> None:
    """All programs, in all languages and versions, must derive the same UID from a key."""
    assert str(uid_of(key)) == uid


@pytest.mark.parametrize("key", ["a", INVOICE, LONG, "a b", "\0", "ключ", "x" * 100_000])
def test_uid_of_any_key_can_be_put(key: Key) -> None:
    uid = uid_of(key)
    assert is_name(uid.origin)
    assert uid.timestamp == 0


def test_uuid_is_the_key_that_its_text_is() -> None:
    assert uid_of(INVOICE) == uid_of(str(INVOICE))


def test_different_keys_have_different_uids() -> None:
    hashed = uid_of("a b").origin
    keys = ["a b", "a  b", "a.b", "A.b", hashed, hashed.removeprefix("sha256."), LONG, LONG + "x"]
    assert len({uid_of(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("key", ["", b"invoice", 4711, "\ud800"])
def test_invalid_key_is_refused(key: Any) -> None:
    with pytest.raises(RequestError) as caught:
        uid_of(key)
    assert caught.value.code == ErrorCode.VALUE_INVALID


async def is_duplicate(manager: QueueManager, key: Key, queue: str = "Q") -> bool:
    """Puts a message with *key*, and returns whether it is refused as a duplicate."""
    (result,) = await manager.put_many(queue, [Outgoing(b"x", key=key)])
    if isinstance(result, RequestError):
        assert result.code == ErrorCode.DUPLICATE_MESSAGE
        return True
    assert result.uid == uid_of(key)
    return False


@pytest.mark.parametrize("key", ["invoice-4711", INVOICE, "Müller 7", LONG])
async def test_key_is_put_once_over_clients_and_a_restart(tmp_path: Path, key: Key) -> None:
    async with serve(tmp_path) as address:
        async with connect(address) as manager:
            await manager.admin.queue_create("Q")
            assert [await is_duplicate(manager, key) for _ in range(2)] == [False, True]
        async with connect(address) as manager:
            assert await is_duplicate(manager, key)
    async with serve(tmp_path) as address, connect(address) as manager:
        assert await is_duplicate(manager, key)
        assert not await is_duplicate(manager, f"{key}-other")
        assert (await manager.admin.queue_show("Q"))["depth"] == 2


async def test_key_is_remembered_after_its_message_as_long_as_the_queue_defines(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("KEPT", dedup_retention_ms=60_000)
        await manager.admin.queue_create("NOT")
        for queue in ("KEPT", "NOT"):
            assert not await is_duplicate(manager, INVOICE, queue)
            message = await manager.get(queue)
            assert message is not None
            await manager.ack(message)
        assert await is_duplicate(manager, INVOICE, "KEPT")
        assert not await is_duplicate(manager, INVOICE, "NOT")
    async with serve(tmp_path) as address, connect(address) as manager:
        assert await is_duplicate(manager, INVOICE, "KEPT")


async def test_message_has_the_uid_of_its_key_wherever_it_is_put(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        _, second = await manager.put_many("Q", [Outgoing(b"1", key="1"), Outgoing(b"2", key="1")])
        assert isinstance(second, RequestError)
        async with manager.unit_of_work() as unit:
            assert (await unit.put("Q", b"2", key="2")).uid == uid_of("2")
        found = [message.uid async for message in manager.browse("Q")]
        assert found == [uid_of("1"), uid_of("2")]
        message = await manager.get("Q", uid=uid_of("2"))
        assert message is not None
        assert message.body == b"2"


async def test_key_next_to_a_uid_is_refused(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        with pytest.raises(RequestError, match="uid and key are both set"):
            await manager.put("Q", b"x", key="a", uid=Uid("A", 1))
