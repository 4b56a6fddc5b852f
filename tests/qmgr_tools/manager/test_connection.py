import pytest

from qmgr_client.blocking import connect
from qmgr_protocol.errors import RequestError
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process
KEYS = {
    "connection",
    "kind",
    "name",
    "user",
    "software",
    "address",
    "open_ms",
    "consumers",
    "gets",
    "units",
    "leased",
    "streams",
    "waiting",
    "waiting_bytes",
    "unsent_bytes",
    "delayed_by",
    "delay_ms",
    "token_ms",
}


def test_list_has_the_documented_keys(qm: Qmctl) -> None:
    (own,) = [row for row in qm("connection", "ls", "-o", "json").json if "qmctl" in row["name"]]
    assert set(own) == KEYS
    assert (own["kind"], own["address"]) == ("client", "unix")
    said = qm("connection", "ls", "--help").out
    assert [key for key in KEYS if key not in said] == []


def test_list_is_a_table(qm: Qmctl) -> None:
    header, *rows = qm("connection", "ls").out.splitlines()
    titles = ["ID", "NAME", "USER", "KIND", "ADDRESS", "OPEN FOR", "CONSUMERS", "UNITS", "LEASED"]
    assert header.split("\t") == titles
    assert rows[-1].split("\t")[3:5] == ["client", "unix"]


def test_list_is_filtered(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    with connect(daemon.unix, name="holder") as client:
        client.put(queue, b"x")
        assert client.get(queue) is not None
        rows = qm("connection", "ls", "--where", "leased>0", "-o", "json").json
        assert [row["name"] for row in rows] == ["holder"]


def test_closed_connection_gives_back_what_it_leased(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    with connect(daemon.unix, name="hangs") as client:
        client.put(queue, b"x")
        assert client.get(queue) is not None
        number = next(
            row["connection"]
            for row in qm("connection", "ls", "-o", "json").json
            if row["name"] == "hangs"
        )
        tried = qm("connection", "close", str(number), "--dry-run")
        assert tried.out == (
            f"would close connection {number} of hangs, which has leased 1 message; "
            "nothing changed\n"
        )
        row = qm("connection", "close", str(number), "--dry-run", "-o", "json").json
        assert (row["dry_run"], row["name"], row["leased"]) == (True, "hangs", 1)
        ended = qm("connection", "close", str(number))
        assert (ended.code, ended.err) == (
            2,
            f"error: did not close connection {number} of hangs -- 1 leased message can be "
            "delivered again, and there is no terminal to ask for confirmation -- to confirm, "
            "add --yes\n",
        )
        assert client.admin.status()["name"] == "QM"
        said = qm("connection", "close", str(number), "--yes").out
        assert said == f"closed connection {number} of hangs; it had leased 1 message\n"
        with pytest.raises(RequestError, match="closed by an operator of QM"):
            client.admin.status()
    assert qm("get", queue, "--wait", "20s", "--body-only").out == "x"


def test_what_a_unit_holds_is_told_before_it_is_cut(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    with connect(daemon.unix, name="hangs") as client, client.unit_of_work() as unit:
        client.put(queue, b"x")
        assert unit.get(queue) is not None
        where = ("--where", "name=hangs", "--columns", "connection,units,leased")
        _, row = qm("connection", "ls", *where).out.splitlines()
        number, *held = row.split("\t")
        assert held == ["1", "1"]
        assert ", which has leased 1 message;" in qm("connection", "close", number, "--dry-run").out
        unit.backout()


@pytest.mark.parametrize(
    ("number", "code", "why"),
    [("999999", 3, "the connection does not exist or is already closed"), ("0", 2, "'ID'")],
)
def test_unknown_connection_is_refused(number: str, code: int, why: str, qm: Qmctl) -> None:
    ended = qm("connection", "close", number, "--yes")
    assert (ended.code, ended.out) == (code, "")
    assert why in ended.err


def test_name_of_any_length_takes_a_part_of_a_line(qm: Qmctl, daemon: Daemon) -> None:
    name = "long." + "x" * 200
    with connect(daemon.unix, name=name) as client:
        client.admin.status()
        for words in (["connection", "ls"], ["top", "-b", "-d", "100ms"]):
            out = qm(*words).out
            assert f"\t{name[:63]}…\t" in out
            assert name not in out
        rows = qm("connection", "ls", "--where", f"name={name}", "-o", "json").json
        assert [row["name"] for row in rows] == [name]
