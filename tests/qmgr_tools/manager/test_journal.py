import json

import pytest

from qmgr_tools.manager import journal

ROW = {
    "place": "postgresql",
    "server": "16.4 (Debian 16.4-1)",
    "fsync": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
    "member": "nyc1",
    "why": "the first start",
    "since_us": 0,
    "epoch": 3,
    "record": 41_000,
    "trouble": "",
    "log_bytes": 1 << 20,
    "base_record": 40_000,
    "base_bytes": 1 << 20,
    "members": [
        {
            "member": "nyc1",
            "role": "active",
            "record": 41_000,
            "behind": 0,
            "addresses": ["nyc1:7470"],
            "seen_ms": 1_000,
        }
    ],
}


def test_local_journal_is_named() -> None:
    assert journal.facts({"place": "file"}) == {"journal": "local file"}
    assert "none" in journal.facts({"place": "none"})["journal"]
    assert journal.facts({}) == {"journal": None}


def test_journal_on_a_server_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    shown = journal.facts(ROW)
    assert (shown["journal"], shown["survives"]) == ("PostgreSQL 16.4", "one server")
    assert shown["base"] == "record 40,000, 1 MiB"
    assert journal.facts(ROW | {"base_record": 0})["base"] is None
    journal.show_members(json.loads(json.dumps(ROW)))
    assert capsys.readouterr().out.splitlines() == [
        "",
        "MEMBER\tROLE\tRECORDS BEHIND\tADDRESSES\tSEEN",
        "nyc1\tactive\t0\tnyc1:7470\t1 s",
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"fsync": "off"}, "no disk: fsync is off"),
        ({"synchronous_standby_names": "s1"}, "one server, also on standby server s1"),
        (
            {"synchronous_standby_names": "s1", "synchronous_commit": "remote_write"},
            "one server, in memory of standby server s1",
        ),
        (
            {"synchronous_standby_names": "s1", "synchronous_commit": "remote_apply"},
            "one server, applied on standby server s1",
        ),
        (
            {"synchronous_standby_names": "s1", "synchronous_commit": "local"},
            "one server: synchronous_commit is local, so s1 may be behind",
        ),
    ],
)
def test_what_a_commit_survives_depends_on_the_settings(
    changed: dict[str, str], words: str
) -> None:
    assert journal.survives(ROW | changed).startswith(words)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("s1", "standby server s1"),
        ("s1, s2", "1 of the standby servers s1, s2"),
        ('FIRST 2 (s1, "s ""2""")', 'standby servers s1, s "2"'),
        ("ANY 1 (s1, s2)", "1 of the standby servers s1, s2"),
        ("*", "any 1 standby server"),
        ("any 2 (*)", "any 2 standby servers"),
        ("2 (s1, s2, s3)", "2 of the standby servers s1, s2, s3"),
    ],
)
def test_standby_servers_are_named(setting: str, words: str) -> None:
    assert journal.standbys(setting) == words
