"""Tests of callers' mistakes. Each error states the mistake, its location and the remedy."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qmgr_client import aio
from qmgr_client.blocking import Client, Outgoing, connect
from qmgr_client.errors import AddressInvalid
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.served import Server

Call = Callable[[Any], object]
INVALID = ErrorCode.VALUE_INVALID

MISTAKES: list[tuple[Call, ErrorCode, str]] = [
    # options that do not exist
    (
        lambda c: c.put("Q", b"x", priorty=3),
        INVALID,
        "put has no option 'priorty'; did you mean priority?",
    ),
    (
        lambda c: c.submit("Q", b"x", hue=3),
        INVALID,
        "submit has no option 'hue'; the options are content_type, ",
    ),
    (
        lambda c: c.publish("t", b"x", header={}),
        INVALID,
        "publish has no option 'header'; did you mean headers?",
    ),
    (
        lambda c: c.get("Q", wehre="a = 1"),
        INVALID,
        "this method has no option 'wehre'; did you mean where?",
    ),
    (
        lambda c: c.consume("Q", uuid=1),
        INVALID,
        "this method has no option 'uuid'; did you mean uid?",
    ),
    (
        lambda c: c.get("Q", wait=5),
        INVALID,
        "this method has no option 'wait'; did you mean wait_ms?",
    ),
    (lambda c: list(c.browse("Q", color=1)), INVALID, "this method has no option 'color'"),
    (
        lambda c: c.group("Q").put(b"x", prio=1),
        INVALID,
        "put has no option 'prio'; did you mean priority?",
    ),
    (
        lambda c: c.admin.queue_create("N", depht_max=1),
        INVALID,
        "depht_max: unknown attribute; did you mean depth_max?",
    ),
    # bodies and lists
    (
        lambda c: c.put("Q", "x"),
        INVALID,
        "body is of type str, not bytes; encode it: body.encode()",
    ),
    (lambda c: c.put("Q", bytearray(b"x")), INVALID, "body is of type bytearray, not bytes"),
    (lambda c: c.put("Q", None), INVALID, "body is of type NoneType, not bytes"),
    (
        lambda c: c.put_many("Q", b"xyz"),
        INVALID,
        "put_many requires a list of bodies or messages, not bytes",
    ),
    (
        lambda c: c.put_many("Q", Outgoing(b"x")),
        INVALID,
        "put_many requires a list of bodies or messages, not Outgoing",
    ),
    (
        lambda c: c.put_many("Q", 7),
        INVALID,
        "put_many requires a list of bodies or messages, not int",
    ),
    (
        lambda c: c.publish_many("t", "xyz"),
        INVALID,
        "publish_many requires a list of bodies or messages, not str",
    ),
    # names
    (lambda c: c.put("", b"x"), ErrorCode.NAME_INVALID, "1 to 64 of"),
    (
        lambda c: c.put(None, b"x"),
        ErrorCode.NAME_INVALID,
        "the name of a queue must be a str, not None",
    ),
    (lambda c: c.get(""), ErrorCode.NAME_INVALID, "1 to 64 of"),
    (lambda c: c.get(None), INVALID, "Get.queue"),
    (lambda c: c.admin.queue_create(""), ErrorCode.NAME_INVALID, "1 to 64 of"),
    (lambda c: c.admin.queue_create(7), INVALID, "QueueCreate.queue"),
    (lambda c: c.publish(None, b"x"), ErrorCode.TOPIC_INVALID, "a topic must be a str, not None"),
    (lambda c: c.publish("", b"x"), ErrorCode.TOPIC_INVALID, ""),
    (lambda c: c.subscribe(None).open(), INVALID, "Subscribe.topic"),
    # values
    (lambda c: c.get("Q", wait_ms="5"), INVALID, "wait_ms is of type str, not a duration"),
    (lambda c: c.get("Q", lease_ms=1.5), INVALID, "lease_ms is of type float, not a duration"),
    (lambda c: c.get("Q", wait_ms=-1), INVALID, "Get.wait_ms"),
    (lambda c: c.get_many("Q", "many"), INVALID, "Get.messages_max"),
    (lambda c: c.consume("Q", prefetch=0), INVALID, "prefetch"),
    (lambda c: c.consume("Q", prefetch="all"), INVALID, "is not an integer"),
    (lambda c: c.consume("Q", groups="sideways"), INVALID, "is not physical, logical or pinned"),
    (lambda c: c.consume("Q", uid=aio.Uid("A", 1)), INVALID, "a consumer cannot select by uid"),
    (lambda c: c.put("Q", b"x", priority="9"), INVALID, "priority is of type str, not int"),
    (lambda c: c.put("Q", b"x", headers=[1]), INVALID, "headers is of type list, not dict"),
    (
        lambda c: c.put("Q", b"x", correlation_id="k"),
        INVALID,
        "correlation_id is of type str, not bytes",
    ),
    (lambda c: c.put("Q", b"x", uid="A.1"), INVALID, "uid is of type str, not Uid"),
    (lambda c: c.admin.queue_create("N", depth_max="9"), INVALID, "'9' is not an integer"),
    (
        lambda c: c.admin.queue_create("N", lease_ms=0.5),
        INVALID,
        "lease_ms is of type float, not a duration",
    ),
    (lambda c: c.admin.republish(subscriptions="B:s"), INVALID, "subscriptions must be a list"),
    (
        lambda c: c.subscribe("t", attributes=[1]).open(),
        INVALID,
        "attributes must be a mapping such as {'depth_max': 1000}, not list",
    ),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Server(tmp_path_factory.mktemp("served")) as server, connect(server.address) as client:
        client.admin.queue_create("Q")
        yield client


@pytest.mark.parametrize(("mistake", "code", "text"), MISTAKES)
def test_mistake_has_a_clear_error(
    client: Client, mistake: Call, code: ErrorCode, text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        mistake(client)
    assert caught.value.code is code
    assert text in caught.value.text
    assert not re.search(r"__new__|__init__|positional", str(caught.value))
    assert client.admin.queue_show("Q")["depth"] == 0, "the connection is still open"


def test_items_that_are_wrong_do_not_stop_the_others(client: Client) -> None:
    ok, wrong = client.put_many("Q", [b"x", "y"])  # type: ignore[list-item]
    assert isinstance(wrong, RequestError)
    assert "body is of type str" in str(wrong)
    assert not isinstance(ok, RequestError)
    client.admin.queue_purge("Q")


def test_client_is_opened_once(client: Client) -> None:
    with pytest.raises(RuntimeError, match="is already open: open it once"):
        client.open()


async def test_client_and_unit_of_asyncio_are_opened_once(client: Client) -> None:
    async with aio.connect(str(client._aio._addresses[0])) as manager:
        with pytest.raises(RuntimeError, match="is already open: open it once"):
            await manager.open()
        async with manager.unit_of_work() as unit:
            with pytest.raises(RuntimeError, match="was used before: create a new one"):
                await unit.__aenter__()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: connect(""), AddressInvalid, "is not host:port, tls:host:port or unix:/path"),
        (lambda: connect(None), AddressInvalid, "an address must be a str"),  # type: ignore[arg-type]
        (lambda: connect("h:1", name=7), ValueError, "the name 7 is not valid UTF-8"),  # type: ignore[arg-type]
        (lambda: connect("h:1", wait_ms="5"), RequestError, "wait_ms is of type str"),  # type: ignore[arg-type]
        (lambda: connect("h:1", wait_ms=-1), ValueError, "wait_ms"),
        (lambda: connect("h:1", producer_id=b"x"), ValueError, "is not 16 bytes"),
    ],
)
def test_connect_reports_mistakes(
    call: Callable[[], object], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


def test_path_is_used(tmp_path: Path) -> None:
    with pytest.raises(AddressInvalid):
        connect(tmp_path)  # type: ignore[arg-type]
