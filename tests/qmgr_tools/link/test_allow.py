import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Failure
from qmgr_tools.link.allow import checked
from tests.qmgr_tools.conftest import Daemon, Qmctl

STORE = "6a0f3c0d9b4e4f2f8a54c1f0b6d7e812"


@pytest.fixture
def strict(qm: Qmctl, daemon: Daemon) -> Iterator[Daemon]:
    """The shared daemon, which does not allow OWN."""
    qm("link", "disallow", "OWN")
    yield daemon
    qm("link", "disallow", "OWN")


@pytest.mark.process
def test_link_goes_up_once_the_operator_types_what_the_error_names(
    at: Qmctl, qm: Qmctl, queue: str, strict: Daemon
) -> None:
    at("link", "create", strict.name, strict.tcp)
    at("queue", "create", f"{queue}@{strict.name}")
    at("put", f"{queue}@{strict.name}", "over there")
    until_s = time.monotonic() + 20
    while (row := at("link", "show", strict.name, "-o", "json").json)["state"] != "refused":
        assert time.monotonic() < until_s
        time.sleep(0.02)
    assert row["error"].startswith("PEER_NOT_ALLOWED: ")
    assert row["error"].endswith(f"accepts no links from OWN; allow OWN at {strict.name}")
    assert 0 < row["retry_ms"] <= 30_000
    (finding,) = at("link", "doctor", strict.name, "-o", "json").json["links"][0]["findings"]
    assert finding["code"] == "refused-peer-not-allowed"
    assert finding["remedy"] == f"qmctl -c {strict.tcp} link allow OWN"
    assert "it retries in" in finding["what"]
    there = qm("link", "ls", "-o", "json").json
    (refused,) = [row for row in there if (row["direction"], row.get("peer")) == ("refused", "OWN")]
    store_id = at("status", "-o", "json").json["store_id"]
    assert (refused["code"], refused["store_id"]) == ("PEER_NOT_ALLOWED", store_id)
    (entry,) = [x for x in qm("link", "doctor", "-o", "json").json["links"] if x["link"] == "OWN"]
    (finding,) = entry["findings"]
    assert finding["remedy"] == f"qmctl link allow OWN --store-id {store_id}"
    assert "REFUSED\tSTORE\tREASON\tTIMES\tLAST\tERROR\n" in qm("link", "ls").out
    assert "REFUSED\t" in qm("link", "show", "OWN").out
    allowed = qm(*finding["remedy"].split()[1:]).out
    assert allowed == f"allowed links from OWN; from store {store_id}\n"
    at("link", "start", strict.name)  # Without this start, the link would retry within 30 s.
    assert qm("get", queue, "--wait", "20s", "--body-only").out == "over there"
    ended = qm("link", "disallow", "OWN").out
    assert ended == "disallowed links from OWN; closed 1 connection\n"


@pytest.mark.process
def test_end_says_so_where_anybody_may_open_links(
    qmctl: Qmctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMGRD_LINK__INBOUND", "any")
    anybody = Daemon("ANY", tmp_path)
    try:
        anybody.start()
        qmctl("-c", anybody.unix, "link", "allow", "FRA")
        ended = qmctl("-c", anybody.unix, "link", "disallow", "FRA")
    finally:
        anybody.program.stop()
    assert ended.out == (
        'closed 0 connections from FRA; it may connect again: link.inbound is "any"\n'
    )


@pytest.mark.process
def test_allowed_peer_is_listed_with_its_pinned_store(at: Qmctl) -> None:
    said = at("link", "allow", "FRA").out
    assert said == "allowed links from FRA; the first connection pins the store\n"
    row = at("link", "allow", "EWR", "--store-id", STORE, "-o", "json").json
    assert (row["peer"], row["store_id"], row["seen_us"]) == ("EWR", STORE, None)
    assert set(row) == {"peer", "allowed", "store_id", "allowed_us", "seen_us", "error"}
    ewr, fra = at("link", "ls").out.splitlines()[1:]
    assert ewr.startswith(f"EWR\t{STORE[:8]}")
    assert fra.startswith("FRA\tat first connection\t")
    shown = at("link", "show", "FRA", "-o", "json").json
    assert (len(shown["allowed"]), shown["inbound"], shown["refused"]) == (1, [], [])
    ended = at("link", "disallow", "FRA", "-o", "json")
    assert ended.json == {"peer": "FRA", "connections": 0, "inbound": "defined"}
    ended = at("link", "delete", "EWR", "--yes")
    assert (ended.code, ended.err.endswith("link disallow EWR\n")) == (3, True)


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["allow", "a/b"], 2, "NAME_INVALID"),
        (["allow", "OWN"], 6, "is this queue manager itself"),
        (["allow", "FRA", "--store-id", "12"], 2, "is not 32 hexadecimal digits"),
        (["disallow", "FRA"], 3, "LINK_UNKNOWN"),
    ],
)
def test_invalid_request_is_explained(words: list[str], code: int, error: str, at: Qmctl) -> None:
    ended = at("link", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err


def test_store_id_is_hexadecimal_and_whole() -> None:
    assert checked("FRA", STORE.upper()) == bytes.fromhex(STORE)
    assert checked("FRA", "") == b""
    for wrong in ("xy", STORE[:-2], STORE + "00"):
        with pytest.raises(Failure):
            checked("FRA", wrong)
