import time

import pytest

from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process
KEYS = {
    "link", "state", "addresses", "error", "waiting", "waiting_bytes", "in_flight", "commit_id",
    "next_id", "transferred", "resent", "attempts", "down_ms", "redial_ms",
}  # fmt: skip


@pytest.fixture
def at(qmctl: Qmctl, own_daemon: Daemon) -> Qmctl:
    """Runs qmctl against a daemon of its own, with a stopped link to the shared one."""

    def call(*words: str, stdin: bytes = b"") -> object:
        return qmctl("-c", own_daemon.unix, *words, stdin=stdin)

    return call  # type: ignore[return-value]


def test_messages_go_over_a_link(at: Qmctl, qm: Qmctl, queue: str, daemon: Daemon) -> None:
    created = at("link", "create", daemon.name, daemon.tcp, "--stopped", "-o", "json")
    assert set(created.json) == KEYS
    assert (created.json["state"], created.json["addresses"]) == ("stopped", [daemon.tcp])
    assert at("queue", "create", f"{queue}@{daemon.name}").code == 0
    assert at("put", f"{queue}@{daemon.name}", "over there").code == 0
    assert at("link", "show", daemon.name, "-o", "json").json["waiting"] == 1
    assert at("link", "start", daemon.name).out.startswith(f"link {daemon.name} is started: ")
    assert qm("get", queue, "--wait", "20s", "--body-only").out == "over there"
    row = at("link", "show", daemon.name, "-o", "json").json
    assert row["state"] == "up"
    both = at("link", "ls", "-o", "json").json
    assert [link["link"] for link in both["links"]] == [daemon.name]
    assert both["inbound"] == []
    assert [link["peer"] for link in qm("link", "ls", "-o", "json").json["inbound"]] == ["OWN"]
    stream = qm("link", "ls", "-o", "json").json["inbound"][0]["stream"]
    header, shown = qm("link", "ls").out.splitlines()  # None leads from here.
    assert header.startswith("FROM\tCOMMIT ID\t")
    assert shown.endswith(f"\t{stream[:8]}…{stream[-4:]}")
    assert qm("link", "ls", "--sort", "link").out == f"{header}\n{shown}\n"
    assert qm("link", "ls", "--where", "state=up").out.startswith("LINK\tSTATE\t")
    stopped = at("link", "stop", daemon.name).out
    assert stopped.startswith(f"link {daemon.name} is stopped; ")


def test_list_and_show_are_tables(at: Qmctl) -> None:
    assert at("link", "create", "NYC", "127.0.0.1:1", "unix:/x", "--stopped").out == (
        "link NYC is there: stopped\n"
    )
    header, row = at("link", "ls").out.splitlines()
    assert header.split("\t")[:4] == ["LINK", "STATE", "WAITING", "IN FLIGHT"]
    assert row.split("\t")[:4] == ["NYC", "stopped", "0", "0"]
    assert "127.0.0.1:1, unix:/x" in row
    assert "addresses\t127.0.0.1:1, unix:/x\n" in at("link", "show", "NYC").out


def test_list_takes_conditions_an_order_and_columns(at: Qmctl) -> None:
    for name in ("NYC", "EWR", "BOS"):
        at("link", "create", name, "127.0.0.1:1", "--stopped")
    at("queue", "create", "Q@EWR")
    at("put", "Q@EWR", "x")
    names = ("link", "ls", "--columns", "link,waiting")
    assert at(*names, "--sort", "-waiting", "--limit", "1").out == "LINK\tWAITING\nEWR\t1\n"
    assert at(*names, "--where", "state!=stopped").out == "LINK\tWAITING\n"
    few = at("link", "ls", "--where", "waiting=0", "--sort", "-link", "-o", "json").json
    assert [link["link"] for link in few["links"]] == ["NYC", "BOS"]
    wrong = at("link", "ls", "--where", "leased>0")
    assert (wrong.code, "there is no column 'leased'" in wrong.err) == (2, True)


def test_json_keys_are_documented(qmctl: Qmctl) -> None:
    said = qmctl("link", "show", "--help").out
    assert [key for key in KEYS if key not in said] == []


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["create", "a/b", "h:1"], 2, "NAME_INVALID"),
        (["create", "NYC", "nowhere"], 2, "ADDRESS is no address"),
        (["create", "NYC"], 2, "missing argument 'ADDRESS'"),
        (["create", "OWN", "h:1"], 6, "PEER_WRONG"),
        (["show", "NYC"], 3, "LINK_UNKNOWN"),
        (["start", "NYC"], 3, "LINK_UNKNOWN"),
        (["stop", "NYC"], 3, "LINK_UNKNOWN"),
        (["delete", "NYC", "-y"], 3, "LINK_UNKNOWN"),
    ],
)
def test_what_cannot_be_is_explained(words: list[str], code: int, error: str, at: Qmctl) -> None:
    ended = at("link", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err


def test_link_with_messages_is_deleted_with_purge_only(at: Qmctl) -> None:
    at("link", "create", "NYC", "h:1", "--stopped")
    assert at("link", "create", "NYC", "h:2").code == 6
    at("queue", "create", "Q@NYC")
    at("put", "Q@NYC", "x")
    ended = at("link", "delete", "NYC", "--yes")
    assert (ended.code, ended.err) == (
        6,
        "error: cannot delete link NYC -- it holds 1 message -- "
        "let them go, or delete it with --purge, which loses them\n",
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
    """A refused link, as another queue manager answers there, with a message on it."""
    at("link", "create", "NYC", daemon.tcp, "--stopped")
    at("queue", "create", "Q@NYC")
    at("put", "Q@NYC", "x")
    at("link", "start", "NYC")
    wait_for_state(at, "refused")
    return "NYC"


def wait_for_state(at: Qmctl, state: str) -> None:
    """Return once the link NYC is in that state."""
    until_s = time.monotonic() + 20
    while at("link", "show", "NYC", "-o", "json").json["state"] != state:
        assert time.monotonic() < until_s
        time.sleep(0.02)


def test_refused_link_names_accept_before_purge(at: Qmctl, refused: str) -> None:
    said = at("link", "delete", refused).err
    assert "it holds 1 message, and is refused: " in said
    assert said.endswith(
        " -- have them sent with: qmctl link start NYC --accept, "
        "or delete it with --purge, which loses them\n"
    )


def test_start_of_a_refused_link_says_that_it_was_and_why(at: Qmctl, refused: str) -> None:
    why = at("link", "show", refused, "-o", "json").json["error"]
    said = at("link", "start", refused).out
    assert said.startswith("link NYC is started: ")
    assert said.endswith(
        f"; it was refused: {why}; if it is again: qmctl link start NYC --accept\n"
    )


def test_remote_queue_tells_where_its_messages_wait(at: Qmctl, refused: str) -> None:
    why = at("link", "show", refused, "-o", "json").json["error"]
    shown = at("queue", "show", "Q@NYC").out
    assert f"\nmessages wait on\t@NYC\nlink\trefused: {why}\n" in shown
    assert "waits_on" not in at("queue", "show", "Q@NYC", "-o", "json").json


def test_peer_of_a_refused_link_is_not_accepted_unasked(at: Qmctl, refused: str) -> None:
    ended = at("link", "start", refused, "--accept")
    assert (ended.code, "of 1 message on it some may arrive twice" in ended.err) == (2, True)


def test_empty_link_is_deleted_unasked(at: Qmctl) -> None:
    at("link", "create", "NYC", "127.0.0.1:1", "--stopped")
    assert at("link", "delete", "NYC").out == "deleted link NYC and 0 messages\n"
