"""Tests of functions that can be workers."""

from typing import Any

import pytest

import qmgr_client
from qmgr_client import aio, blocking
from qmgr_client.message import Message
from qmgr_client.queue_worker import Worker


def test_worker_is_its_function_still() -> None:
    @blocking.worker("ORDERS", concurrency=3, lease_ms=500, where="kg > 3")
    def bill(message: Message) -> int:
        """Bills an order."""
        return len(message.body)

    assert isinstance(bill, Worker)
    assert (bill.queue, bill.concurrency, bill.lease_ms) == ("ORDERS", 3, 500)
    assert bill.selection == {"where": "kg > 3"}
    assert (bill.__name__, bill.__doc__) == ("bill", "Bills an order.")  # type: ignore[attr-defined]
    assert bill(Message(b"abc", None, 4, b"", {}, "Q", 0, 0, 0, 0, b"", 1)) == 3


def test_package_offers_the_decorator() -> None:
    """The name refers to the decorator, and not to a module."""
    assert qmgr_client.worker is blocking.worker


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "3", True])
def test_concurrency_below_one_is_refused(concurrency: Any) -> None:
    with pytest.raises(ValueError, match="concurrency"):
        blocking.worker("ORDERS", concurrency)(print)


def test_function_that_takes_no_message_is_refused_before_it_fails_on_all() -> None:
    with pytest.raises(TypeError, match="must accept one message"):
        blocking.worker("ORDERS")(lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(TypeError, match="must accept one message"):
        blocking.worker("ORDERS")(lambda message, client: None)  # type: ignore[arg-type, misc]


def test_each_shell_has_its_own_workers() -> None:
    async def waits(message: Message) -> None: ...

    with pytest.raises(TypeError, match=r"is not async: use the worker of qmgr_client\.blocking"):
        aio.worker("ORDERS")(print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"is async: use the worker of qmgr_client\.aio"):
        blocking.worker("ORDERS")(waits)
