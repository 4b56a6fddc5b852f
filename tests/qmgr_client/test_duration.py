"""Tests of durations, which are given in milliseconds or as a timedelta."""

import inspect
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from qmgr_client import aio, blocking
from qmgr_client.aio import admin as aio_admin
from qmgr_client.aio import topics as aio_topics
from qmgr_client.aio import unit as aio_unit
from qmgr_client.aio.group_put import GroupPut
from qmgr_client.aio.reader import GroupReader
from qmgr_client.blocking import unit as blocking_unit
from qmgr_client.duration import Duration, in_ms, in_ms_or_none
from qmgr_client.outgoing import Outgoing, PutOptions
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.served import Server

KINDS = (
    aio.QueueManager,
    aio.UnitOfWork,
    GroupPut,
    GroupReader,
    aio_admin.Admin,
    aio_topics.Topics,
    blocking.Client,
    blocking.UnitOfWork,
    blocking.GroupReader,
)
PURE = {blocking.connect, aio.connect}


def verbs() -> Iterator[Any]:
    yield from PURE
    for kind in KINDS:
        yield from (
            found
            for name, found in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        )


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (0, 0),
        (5, 5),
        (-1, -1),
        (timedelta(0), 0),
        (timedelta(seconds=1.5), 1_500),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1_001), 2),
        (timedelta(1), 86_400_000),
    ],
)
def test_duration_is_whole_milliseconds_rounded_up(duration: Duration, ms: int) -> None:
    assert in_ms("wait_ms", duration) == in_ms_or_none("wait_ms", duration) == ms


def test_none_stays_none() -> None:
    assert in_ms_or_none("wait_ms", None) is None


@pytest.mark.parametrize(
    ("duration", "why"),
    [
        (1.5, "wait_ms is of type float, not a duration: pass whole milliseconds or a timedelta"),
        ("5s", "wait_ms is of type str"),
        (True, "wait_ms is of type bool"),
        (timedelta(milliseconds=-1), "wait_ms is negative: "),
    ],
)
def test_invalid_duration_is_refused(duration: Any, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        in_ms("wait_ms", duration)
    assert caught.value.code is ErrorCode.VALUE_INVALID


@pytest.mark.parametrize("verb", sorted(set(verbs()), key=str))
def test_each_parameter_of_the_client_that_is_a_time_takes_both(verb: Any) -> None:
    for name, parameter in inspect.signature(verb).parameters.items():
        if name.endswith("_ms"):
            assert parameter.annotation in (Duration, Duration | None), f"{verb}: {name}"


def test_each_option_that_is_a_time_takes_both() -> None:
    for kind in (Outgoing, PutOptions):
        found = {name: hint for name, hint in get_type_hints(kind).items() if name.endswith("_ms")}
        assert found == {"expiry_ms": Duration, "delay_ms": Duration}


def test_times_are_taken_from_end_to_end(tmp_path: Path) -> None:
    second, minute = timedelta(seconds=1), timedelta(minutes=1)
    with (
        Server(tmp_path) as server,
        blocking.connect(server.address, wait_ms=second, give_up_ms=minute) as client,
    ):
        row = client.admin.queue_create("Q", lease_ms=minute, retry_initial_ms=second)
        assert (row["lease_ms"], row["retry_initial_ms"]) == (60_000, 1_000)
        client.admin.topic_set("t", republish_interval_ms=timedelta(hours=2))
        assert client.admin.topic_show("t")["republish_interval_ms"] == 7_200_000
        sub = client.admin.subscription_create("t", "B:s", unused_expiry_ms=timedelta(days=1))
        assert sub["unused_expiry_ms"] == 86_400_000
        assert client.admin.template_set("X*", lease_ms=second)["attributes"] == {"lease_ms": 1_000}

        client.put("Q", b"x", delay_ms=timedelta(hours=1), expiry_ms=timedelta(hours=2))
        (waiting,) = client.browse("Q", delayed=True)
        assert waiting.delay_ms == 3_600_000
        assert 3_600_000 < (waiting.expiry_left_ms or 0) <= 7_200_000
        client.put("Q", b"y")
        got = client.get("Q", wait_ms=second, lease_ms=minute)
        assert got is not None
        client.renew(got, lease_ms=minute)
        client.release(got, delay_ms=timedelta(0))
        with client.consume("Q", lease_ms=minute) as consumer:
            got = next(consumer)
            client.release(got, failed=False)
        with client.unit_of_work() as unit:
            assert unit.get("Q", wait_ms=second) is not None
        with client.reader("Q", lease_ms=minute) as reader:
            assert reader.get(wait_ms=timedelta(0)) is None
        with client.subscribe("t", "B:s", lease_ms=minute) as subscription:
            client.publish("t", b"z", expiry_ms=minute)
            message = next(subscription)
            assert 0 < (message.expiry_left_ms or 0) <= 60_000
        client.close(timeout_ms=second)


def test_unit_modules_are_checked_here() -> None:
    assert {aio_unit.UnitOfWork, blocking_unit.UnitOfWork} <= set(KINDS)


def test_longest_timedelta_is_out_of_range_as_any_number_would_be() -> None:
    assert in_ms("wait_ms", timedelta.max) == 86_400_000_000_000_000
