"""Tests of a connection to a queue manager that may be unavailable: waits, retries and errors."""

import time
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, connect
from qmgr_client.errors import ConnectionEnded, UnknownOutcome
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tables.stream.connection import Connection, ManagerAway
from tests.qmgr_client.served import Server, address_of

NAME = "lake"


def name_of(client: Client) -> str:
    name: str = client.admin.status()["name"]
    return name


def test_line_is_open_once_it_is_asked_and_closed_any_number_of_times(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect(server.address) as app:
        with Connection(server.address, 0, NAME) as line:
            assert NAME not in names(app)
            assert line.ask(name_of) == "QM1"
            assert NAME in names(app)
        assert NAME not in names(app)
        line.close()
        assert line.ask(name_of) == "QM1"
        line.close()


def names(app: Client) -> list[str]:
    return [row["name"] for row in app.admin.connection_list()]


def test_queue_manager_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with Connection(address_of(tmp_path), 60_000, NAME) as line:
        for _ in range(2):
            with Server(tmp_path):
                assert line.ask(name_of) == "QM1"
            with pytest.raises(ManagerAway, match="waited for 0 ms"):
                line.ask(name_of, 0)


def test_nobody_there_is_reported_after_the_wait(tmp_path: Path) -> None:
    began_s = time.monotonic()
    with Connection(address_of(tmp_path), 300, NAME) as line:
        with pytest.raises(ManagerAway, match=r"is qmgrd running there.*waited for 300 ms"):
            line.ask(name_of)
        assert time.monotonic() - began_s > 0.25  # The wait is 300 ms, but timers are coarse.


@pytest.mark.parametrize(
    "error",
    [
        ConnectionEnded(ErrorCode.SHUTTING_DOWN, "it went away", was_sent=True),
        UnknownOutcome(ErrorCode.SHUTTING_DOWN, "it went away"),
        RequestError(ErrorCode.STORE_FULL, "full for now"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_pass_is_asked_again_on_a_new_connection(
    tmp_path: Path, error: RequestError
) -> None:
    asked: list[Client] = []

    def fail_twice(client: Client) -> int:
        asked.append(client)
        if len(asked) < 3:
            raise error
        return len(asked)

    with Server(tmp_path) as server, Connection(server.address, 60_000, NAME) as line:
        assert line.ask(name_of) == "QM1"
        assert line.ask(fail_twice) == 3
        assert len({id(client) for client in asked}) == 3

        def fail(_: Client) -> None:
            raise error

        with pytest.raises(ManagerAway, match=rf"{server.address}: .*; waited for 0 ms"):
            line.ask(fail, 0)


def test_refusal_is_handed_on_at_once(tmp_path: Path) -> None:
    with Server(tmp_path) as server, Connection(server.address, 60_000, NAME) as line:
        with pytest.raises(RequestError) as refused:
            line.ask(lambda client: client.admin.queue_show("NONE"))
        assert refused.value.code == ErrorCode.QUEUE_UNKNOWN
        assert line.ask(name_of) == "QM1"
