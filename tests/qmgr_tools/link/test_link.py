import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_bench.server import free_port
from qmgr_tools.link.link import ACCEPTABLE
from qmgrd.core.catalogue import link_definitions
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process
KEYS = {
    "link",
    "state",
    "addresses",
    "error",
    "waiting",
    "waiting_bytes",
    "in_flight",
    "commit_id",
    "next_id",
    "transferred",
    "resent",
    "lost",
    "lost_us",
    "attempts",
    "down_ms",
    "redial_ms",
    "blocked_ms",
    "retry_ms",
    "blocked_uid",
    "blocked_queue",
    "blocked_behind",
    "oldest_ms",
    "held",
    "connections",
    "connections_up",
    "ordered",
    "fetch",
    "routes",
    "transit",
    "paths",
}
INBOUND_KEYS = {
    "peer",
    "commit_id",
    "ahead",
    "duplicates",
    "stream",
    "blocked_id",
    "blocked_queue",
    "tries_left",
    "error",
    "dead_letters",
    "dead_error",
    "connections",
    "in_line",
    "lost",
    "lost_us",
}


@pytest.fixture
def peer(qm: Qmctl, daemon: Daemon) -> Daemon:
    """The shared daemon, which accepts any store of OWN."""
    qm("link", "disallow", "OWN")  # The daemon may remember the store of an earlier test.
    qm("link", "allow", "OWN")
    return daemon


def test_messages_go_over_a_link(at: Qmctl, qm: Qmctl, queue: str, peer: Daemon) -> None:
    created = at("link", "create", peer.name, peer.tcp, "--stopped", "-o", "json")
    assert set(created.json) == KEYS
    assert (created.json["state"], created.json["addresses"]) == ("stopped", [peer.tcp])
    assert at("queue", "create", f"{queue}@{peer.name}").code == 0
    assert at("put", f"{queue}@{peer.name}", "over there").code == 0
    assert at("link", "show", peer.name, "-o", "json").json["waiting"] == 1
    assert at("link", "start", peer.name).out.startswith(
        f"started link {peer.name}, connecting to {peer.tcp}"
    )
    assert qm("get", queue, "--wait", "20s", "--body-only").out == "over there"
    row = at("link", "show", peer.name, "-o", "json").json
    assert row["state"] == "up"
    both = at("link", "ls", "-o", "json").json
    assert [(link["direction"], link["link"]) for link in both] == [("out", peer.name)]
    (there,) = [row for row in qm("link", "ls", "-o", "json").json if row["direction"] == "in"]
    assert there["peer"] == "OWN"
    stream = there["stream"]
    listed = qm("link", "ls").out  # The shared daemon has no outbound link.
    header, shown = listed.splitlines()[:2]
    assert "\n\nALLOWED\tSTORE\tSINCE\tLAST OPENED\tERROR\nOWN\t" in listed
    assert header.startswith("FROM\tCOMMIT ID\t")
    assert shown.endswith(f"\t{stream[:8]}…{stream[-4:]}\t")
    assert qm("link", "ls", "--sort", "link").out == listed
    assert qm("link", "ls", "--where", "state=up").out.startswith("LINK\tSTATE\t")
    while at("link", "show", peer.name, "-o", "json").json["waiting"]:
        pass  # The test waits until the peer has sent its commit id.
    stopped = at("link", "stop", peer.name).out
    assert stopped.startswith(f"stopped link {peer.name}; it holds 0 messages")


def test_receiving_end_shows_what_of_a_link_cannot_be_stored(
    at: Qmctl, qm: Qmctl, queue: str, peer: Daemon
) -> None:
    at("link", "create", peer.name, peer.tcp, "--stopped")
    at("queue", "create", f"{queue}.NONE@{peer.name}")
    at("put", f"{queue}.NONE@{peer.name}", "x")
    at("link", "start", peer.name)
    while at("link", "show", peer.name, "-o", "json").json["state"] != "blocked":
        time.sleep(0.02)
    there = qm("link", "show", "OWN", "-o", "json").json
    assert set(there) == {"inbound", "allowed", "refused"}
    (row,) = there["inbound"]
    assert (row["blocked_id"], row["blocked_queue"]) == (1, f"{queue}.NONE")
    assert row["tries_left"] is None
    assert row["error"].startswith("QUEUE_UNKNOWN: ")
    assert set(row) == INBOUND_KEYS
    help_text = qm("link", "ls", "--help").out
    assert [key for key in INBOUND_KEYS if key not in help_text] == []
    header, shown = qm("link", "show", "OWN").out.splitlines()[:2]
    assert "BLOCKED AT\tBLOCKED QUEUE\tTRIES LEFT\t" in header
    assert f"\t1\t{queue}.NONE\t\t" in shown
    both = at("link", "show", peer.name, "-o", "json").json
    assert set(both) == KEYS | {"inbound", "allowed", "refused"}
    assert both["inbound"] == []


def test_connections_and_order_are_given_and_altered(at: Qmctl) -> None:
    given = ("--connections", "3", "--ordered", "--stopped", "-o", "json")
    row = at("link", "create", "NYC", "127.0.0.1:1", *given).json
    assert (row["connections"], row["ordered"], len(row["paths"])) == (3, True, 3)
    dry = at("link", "alter", "NYC", "--connections", "2", "--dry-run")
    assert dry.out == "would alter link NYC: connections 3 -> 2; nothing changed\n"
    altered = at("link", "alter", "NYC", "--connections", "2", "--unordered").out
    assert altered == ("altered link NYC: connections 3 -> 2; ordered yes -> no; state: stopped\n")
    assert at("link", "alter", "NYC", "--unordered").out.startswith("link NYC is unchanged; ")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["create", "a/b", "h:1"], 2, "NAME_INVALID"),
        (["create", "NYC", "nowhere"], 2, "ADDRESS is not a valid address"),
        (["create", "NYC"], 2, "ADDRESS is missing"),
        (["create", "NYC", "h:1", "--passive"], 2, "addresses and --passive exclude each other"),
        (["create", "OWN", "h:1"], 6, "name the link after the other queue manager"),
        (["alter", "NYC", "nowhere"], 2, "ADDRESS is not a valid address"),
        (["alter", "NYC"], 2, "no address and no option"),
        (["alter", "NYC", "--connections", "17"], 2, "at most 16"),
        (["alter", "NYC", "h:1"], 3, "LINK_UNKNOWN"),
        (["alter", "NYC", "h:1", "--dry-run"], 3, "LINK_UNKNOWN"),
        (["show", "NYC"], 3, "LINK_UNKNOWN"),
        (["start", "NYC"], 3, "LINK_UNKNOWN"),
        (["stop", "NYC"], 3, "LINK_UNKNOWN"),
        (["delete", "NYC", "-y"], 3, "LINK_UNKNOWN"),
    ],
)
def test_invalid_request_is_explained(words: list[str], code: int, error: str, at: Qmctl) -> None:
    ended = at("link", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err


def test_dry_run_refuses_an_invalid_route(at: Qmctl) -> None:
    at("link", "create", "NYC", "h:1", "--stopped")
    words = ["link", "alter", "NYC", "--route", "a b"]
    tried, done = at(*words, "--dry-run"), at(*words)
    assert (tried.code, done.code) == (2, 2)
    assert at("link", "delete", "NYC", "-y").code == 0


def test_link_with_messages_is_deleted_with_purge_only(at: Qmctl, own_daemon: Daemon) -> None:
    at("link", "create", "NYC", "h:1", "--stopped")
    again = at("link", "create", "NYC", "h:2")
    assert (
        again.code,
        again.err.endswith(f": qmctl -c {own_daemon.unix} link alter NYC h:2\n"),
    ) == (6, True)
    at("queue", "create", "Q@NYC")
    at("put", "Q@NYC", "x")
    ended = at("link", "delete", "NYC", "--yes")
    assert (ended.code, ended.err) == (
        6,
        "error: cannot delete link NYC -- it holds 1 message -- wait until they are "
        "sent, or delete it with --purge, which loses them\n",
    )
    assert "QUEUE_IN_USE" in at("link", "delete", "NYC", "--yes", "--purge").err
    assert at("queue", "delete", "Q@NYC", "-y").code == 0
    assert at("link", "delete", "NYC", "--purge").code == 2
    ended = at("link", "delete", "NYC", "--yes", "--purge", "-o", "json")
    assert ended.json == {"link": "NYC", "messages": 1}


def test_nothing_is_accepted_of_a_link_that_is_not_refused(at: Qmctl) -> None:
    at("link", "create", "NYC", "127.0.0.1:1", "--stopped")
    for words in ([], ["--yes"]):
        ended = at("link", "start", "NYC", "--accept", *words)
        assert (ended.code, "not refused: there is nothing to accept" in ended.err) == (2, True)


@pytest.fixture
def refused(at: Qmctl, daemon: Daemon) -> str:
    """A link with a message that is refused, because a different queue manager answers."""
    at("link", "create", "NYC", daemon.tcp, "--stopped")
    at("queue", "create", "Q@NYC")
    at("put", "Q@NYC", "x")
    at("link", "start", "NYC")
    wait_for_state(at, "refused")
    return "NYC"


def wait_for_state(at: Qmctl, state: str, link: str = "NYC") -> None:
    """Waits until the link is in *state*."""
    until_s = time.monotonic() + 20
    while at("link", "show", link, "-o", "json").json["state"] != state:
        assert time.monotonic() < until_s
        time.sleep(0.02)


def test_link_that_is_refused_for_its_address_names_alter(
    at: Qmctl, own_daemon: Daemon, refused: str
) -> None:
    said = at("link", "delete", refused).err
    alter = f"qmctl -c {own_daemon.unix} link alter NYC HOST:PORT"
    assert "it holds 1 message, and is refused: PEER_WRONG: " in said
    assert said.endswith(
        f" -- correct the address with: {alter}, or delete it with --purge, which loses them\n"
    )
    tried = at("link", "start", refused, "--accept", "--yes")
    assert (tried.code, alter in tried.err) == (2, True)
    assert "--accept" not in at("link", "start", refused).out


@pytest.fixture
def changed(at: Qmctl, peer: Daemon, tmp_path: Path) -> Iterator[str]:
    """A link with a message that is refused, because the peer now has a different store."""
    (tmp_path / "other").mkdir()
    other = Daemon(peer.name, tmp_path / "other")
    at("link", "create", peer.name, peer.tcp)
    at("queue", "create", f"Q@{peer.name}")
    wait_for_state(at, "up", peer.name)
    at("put", f"Q@{peer.name}", "x")
    try:
        other.start()
        assert at("link", "alter", peer.name, other.tcp).code == 0
        wait_for_state(at, "refused", peer.name)
        yield peer.name
    finally:
        other.program.stop()


def test_link_that_is_refused_for_its_peers_store_names_accept(
    at: Qmctl, own_daemon: Daemon, changed: str
) -> None:
    said = at("link", "delete", changed).err
    accept = f"qmctl -c {own_daemon.unix} link start {changed} --accept"
    assert "it holds 1 message, and is refused: PEER_STORE_CHANGED: " in said
    assert said.endswith(
        f" -- to send them: {accept}, or delete it with --purge, which loses them\n"
    )
    ended = at("link", "start", changed, "--accept")
    assert (
        ended.code,
        "some of its pending messages (1 message) may arrive twice" in ended.err,
    ) == (2, True)
    why = at("link", "show", changed, "-o", "json").json["error"]
    said = at("link", "start", changed).out
    assert said.startswith(f"started link {changed}, connecting to ")
    assert said.endswith(f"; it was refused: {why}; if it is refused again: {accept}\n")


def test_acceptable_is_what_the_queue_manager_accepts() -> None:
    assert {code.name for code in link_definitions.ACCEPTABLE} == ACCEPTABLE


def test_wrong_address_is_corrected(at: Qmctl, refused: str, daemon: Daemon) -> None:
    was = at("link", "show", refused, "-o", "json").json
    dry = at("link", "alter", refused, "h:1", "h:2", "--dry-run")
    change = f"link NYC: addresses {daemon.tcp} -> h:1, h:2"
    assert dry.out == f"would alter {change}; nothing changed\n"
    changed = {"addresses": [[daemon.tcp], ["h:1", "h:2"]]}
    dry = at("link", "alter", refused, "h:1", "h:2", "--dry-run", "-o", "json")
    assert (dry.json["dry_run"], dry.json["changed"], dry.json["addresses"]) == (
        True,
        changed,
        [daemon.tcp],
    )
    assert at("link", "show", refused, "-o", "json").json["addresses"] == was["addresses"]
    assert at("link", "alter", refused, daemon.tcp).out == "link NYC is unchanged; state: refused\n"
    assert at("link", "stop", refused).code == 0
    assert at("link", "alter", refused, "h:1", "h:2").out == f"altered {change}; state: stopped\n"
    again = at("link", "alter", refused, daemon.tcp, "-o", "json").json
    assert set(again) == KEYS | {"changed"}
    assert (again["waiting"], again["addresses"], again["error"]) == (1, [daemon.tcp], "")


def test_dry_run_of_too_many_addresses_is_refused(at: Qmctl) -> None:
    at("link", "create", "NYC", "h:1", "--stopped")
    for words in ([], ["--dry-run"]):
        ended = at("link", "alter", "NYC", *["h:2"] * 17, *words)
        assert (ended.code, "exceed the limit of 16" in ended.err) == (2, True)


def test_blocked_link_says_by_what_and_that_it_tries_again(
    at: Qmctl, qm: Qmctl, queue: str, peer: Daemon
) -> None:
    assert qm("queue", "alter", queue, "--put-inhibit").code == 0
    at("link", "create", peer.name, peer.tcp)
    at("queue", "create", f"{queue}@{peer.name}")
    uids = [at("put", f"{queue}@{peer.name}", x).out.split()[-1] for x in ("a", "b")]
    wait_for_state(at, "blocked", peer.name)
    # The link retries every second, but the values within one row are consistent.
    while not (row := at("link", "show", peer.name, "-o", "json").json)["blocked_uid"]:
        assert row["state"] != "waiting"
    cause = [row[key] for key in ("blocked_uid", "blocked_queue", "blocked_behind")]
    assert cause == [uids[0], queue, 1]
    assert 0 <= row["retry_ms"] <= 1_000
    while not (said := at("link", "start", peer.name).out).startswith(
        f"link {peer.name} is retrying; the last error was: "
    ):
        assert "started link" not in said
    assert (
        f"; the last error was: PUT_INHIBITED: {peer.name} reports: puts are inhibited on "
        f"queue {queue}" in said
    )
    assert f"; to fix it: qmctl -c {peer.tcp} queue alter {queue} --no-put-inhibit" in said
    qm("queue", "alter", queue, "--no-put-inhibit")
    at("link", "start", peer.name)
    assert qm("get", queue, "--wait", "20s", "--body-only").out == "a"
    wait_for_state(at, "up", peer.name)
    assert (
        at("link", "start", peer.name).out == f"link {peer.name} was already started; state: up\n"
    )


def test_stopped_link_does_not_look_broken(at: Qmctl, refused: str) -> None:
    at("link", "stop", refused)
    assert "PEER_WRONG" not in at("link", "ls").out


def test_remote_queue_tells_where_its_messages_wait(at: Qmctl, refused: str) -> None:
    why = at("link", "show", refused, "-o", "json").json["error"]
    shown = at("queue", "show", "Q@NYC").out
    assert f"\nmessages wait on\t@NYC\nlink\trefused: {why}\n" in shown
    assert at("queue", "show", "Q@NYC", "-o", "json").json["waits_on"] == "@NYC"
    assert at("link", "alter", "NYC", "--route", "SFO").code == 0
    at("queue", "create", "Q@SFO")
    assert f"\nmessages wait on\t@NYC\nlink\trefused: {why}\n" in at("queue", "show", "Q@SFO").out
    at("queue", "delete", "Q@SFO", "--yes")
    at("link", "alter", "NYC", "--route", "")


@pytest.mark.parametrize("command", ["create", "alter"])
def test_help_says_what_order_is(qmctl: Qmctl, command: str) -> None:
    said = " ".join(qmctl("link", command, "--help").out.split())
    assert "Keep the order of messages over several connections." in said


def test_empty_link_is_deleted_unasked(at: Qmctl) -> None:
    at("link", "create", "NYC", "127.0.0.1:1", "--stopped")
    assert at("link", "delete", "NYC").out == "deleted link NYC and 0 messages\n"


def test_addresses_of_a_link_may_be_a_list(at: Qmctl, peer: Daemon) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    at("link", "create", peer.name, f"{nobody},{peer.tcp}")
    row = at("link", "show", peer.name, "-o", "json").json
    assert row["addresses"] == [nobody, peer.tcp]
    while row["state"] != "up":
        row = at("link", "show", peer.name, "-o", "json").json
    assert [path["address"] for path in row["paths"]] == [peer.tcp]
    listed = at("link", "ls").out
    assert peer.tcp in listed
    assert nobody not in listed
    many = ",".join(f"h:{n}" for n in range(1, 10))
    ended = at("link", "alter", peer.name, many, many)
    assert "18 addresses exceed the limit of 16" in ended.err
