import os
import socket
from typing import Any

import pytest

from qmgr_client.client_name import checked, client_name, program_of
from qmgr_protocol.name import is_name


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["/opt/app/billing.py", "x"], "billing"),
        (["/usr/bin/qmctl"], "qmctl"),
        (["/opt/billing/__main__.py"], "billing"),
        (["-c"], "python"),
        ([""], "python"),
        ([], "python"),
    ],
)
def test_program_is_what_people_call_it(argv: list[str], program: str) -> None:
    assert program_of(argv) == program


def test_name_has_program_host_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "host7.example.org")
    assert client_name("billing") == f"billing.host7.{os.getpid()}"


def test_name_is_plain_and_short_whatever_the_program_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 4_194_304)
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 64)
    assert is_name(client_name("my büro app " * 10))


@pytest.mark.parametrize("name", ["", "billing", "Lager Süd", "x" * 255])
def test_name_that_is_given_may_be_any_short_text(name: str) -> None:
    assert checked(name) == name


@pytest.mark.parametrize("name", ["x" * 256, "\ud800", b"billing", None])
def test_name_that_no_queue_manager_would_take_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="name"):
        checked(name)
