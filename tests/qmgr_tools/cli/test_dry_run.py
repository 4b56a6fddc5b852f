from typing import Any

import pytest

from qmgr_tools.cli.command import Call
from qmgr_tools.cli.dry_run import delete_queue, purge_queue, show
from qmgr_tools.cli.output import Format
from tests.qmgr_tools.conftest import Daemon, Qmctl


def test_people_and_scripts_are_told_that_nothing_was_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(Call(), {"queue": "Q"}, "delete queue Q")
    show(Call(output=Format.JSON), {"queue": "Q"}, "delete queue Q")
    said = 'would delete queue Q; nothing changed\n{\n  "dry_run": true,\n  "queue": "Q"\n}\n'
    assert capsys.readouterr().out == said


def row(**more: Any) -> dict[str, Any]:
    return {"queue": "Q", "kind": "local", "depth": 3, "bytes": 2048, "ready": 3} | more


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "delete queue Q and 3 messages, 2 KiB"),
        ({"leased": 1}, "delete queue Q and 3 messages, 2 KiB, 1 of them leased"),
        ({"consumers": 2}, "delete queue Q and 3 messages, 2 KiB; 2 consumers would be closed"),
    ],
)
def test_deletion_tells_what_goes(
    more: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    delete_queue(Call(), row(**more))
    assert capsys.readouterr().out == f"would {words}; nothing changed\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"leased": 0}, "purge 3 messages from queue Q, 2 KiB"),
        (
            {"ready": 1, "leased": 2},
            "purge 1 message from queue Q, at most 2 KiB; 2 leased messages would",
        ),
        (
            {"ready": 0, "leased": 3},
            "purge 0 messages from queue Q, 0 B; 3 leased messages would stay",
        ),
    ],
)
def test_purge_tells_what_stays(
    more: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    purge_queue(Call(), row(**more))
    assert capsys.readouterr().out.startswith(f"would {words}")


@pytest.mark.process
@pytest.mark.parametrize("words", [["delete", "--purge"], ["purge"]], ids=" ".join)
def test_queue_is_left_as_it_is(words: list[str], qm: Qmctl, queue: str) -> None:
    for body in ("a", "b"):
        qm("put", queue, body)
    before = qm("queue", "show", queue, "-o", "json").json
    verb, *options = words
    ended = qm("queue", verb, queue, *options, "--dry-run", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["dry_run"] is True
    assert (ended.json["queue"], ended.json["messages"]) == (queue, 2)
    assert ended.json["bytes"] == before["bytes"] > 0
    said = qm("queue", verb, queue, *options, "--dry-run").out
    assert said.startswith("would ")
    assert "2 messages" in said
    assert qm("queue", "show", queue, "-o", "json").json == before
    done = qm("queue", verb, queue, *options, "--yes", "-o", "json").json
    assert done["messages"] == ended.json["messages"]


@pytest.mark.process
def test_json_has_the_documented_keys(qm: Qmctl, queue: str) -> None:
    for verb in ("delete", "purge"):
        said = qm("queue", verb, "--help").out
        for key in qm("queue", verb, queue, "--dry-run", "-o", "json").json:
            assert key in said


@pytest.mark.process
def test_leased_messages_are_not_promised(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    from qmgr_client.blocking import connect

    for body in ("a", "b"):
        qm("put", queue, body)
    with connect(daemon.unix) as client:
        assert client.get(queue) is not None
        found = qm("queue", "purge", queue, "--dry-run", "-o", "json").json
        assert (found["messages"], found["leased"], found["bytes"]) == (1, 1, None)
        assert qm("queue", "purge", queue, "--yes", "-o", "json").json["messages"] == 1


@pytest.mark.process
def test_dry_run_refuses_what_the_daemon_would_refuse(qm: Qmctl, queue: str, way: str) -> None:
    qm("put", f"{queue}@{way}", "x")
    qm("put", queue, "x")
    for words in (
        ["queue", "delete", queue],
        ["queue", "delete", f"@{way}", "--purge", "--yes"],
        ["queue", "purge", f"@{way}", "--yes"],
        ["queue", "purge", f"{queue}@{way}", "--yes"],
        ["link", "delete", way, "--purge", "--yes"],
        ["link", "delete", "NOWHERE", "--yes"],
    ):
        tried, done = qm(*words, "--dry-run"), qm(*words)
        assert tried.code == done.code != 0, words
        assert tried.err.partition(" -- ")[0] == done.err.partition(" -- ")[0]


@pytest.mark.process
def test_link_is_left_as_it_is(qm: Qmctl, queue: str, way: str) -> None:
    qm("put", f"{queue}@{way}", "x")
    remote = qm("queue", "delete", f"{queue}@{way}", "--dry-run")
    assert remote.out.endswith(f"pending messages on @{way} are kept; nothing changed\n")
    assert qm("queue", "delete", f"{queue}@{way}").code == 0
    before = qm("link", "show", way, "-o", "json").json
    found = qm("link", "delete", way, "--purge", "--dry-run", "-o", "json").json
    assert found == {
        "dry_run": True,
        "link": way,
        "messages": 1,
        "bytes": before["waiting_bytes"],
        "in_flight": 0,
    }
    after = qm("link", "show", way, "-o", "json").json
    assert after | {"down_ms": before["down_ms"]} == before
    assert qm("link", "delete", way, "--purge", "--yes").code == 0
