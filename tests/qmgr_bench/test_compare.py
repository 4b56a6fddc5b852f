import json
from pathlib import Path
from typing import cast

import pytest

from qmgr_bench import __main__ as bench
from qmgr_bench.__main__ import busy_warning, parse
from qmgr_bench.compare import SERVERS, compare, run_once, summary, turns
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.rows import OWN_ROWS
from qmgr_bench.rows import ROWS, takes_part
from qmgr_bench.server import Server
from qmgr_bench.setting import Setting

PEERS = ["redis", "redis-batch", "rabbitmq", "postgres", "postgres-batch", "beanstalkd", "nats"]
RUN: dict[str, object] = {"messages": 10, "flushes": 2, "is_cut": False} | {
    "p50_ms": 1.0,
    "p99_ms": 2.0,
    "server_cpu_us": 5.0,
    "generator_cpu_us": 0.5,
}


def run(
    row: str, server: str, rate: float, p50_ms: float | None = 1.0, number: int = 1
) -> dict[str, object]:
    named = {"row": row, "server": server, "round": number}
    return RUN | named | {"messages_per_second": rate, "p50_ms": p50_ms}


def test_row_held_against_another_has_the_ratio_within_each_round() -> None:
    """The ratio does not change if the disk becomes ten times slower between two rounds."""
    runs = [run("W1b", "qmgrd", rate, number=at) for at, rate in enumerate((100, 10, 10))]
    runs += [run("W4", "qmgrd", rate, number=at) for at, rate in enumerate((90, 9.5, 8))]
    assert [entry.get("beside") for entry in summary(runs)] == [None, {"W1b": 0.9}]


def test_summary_has_medians_and_our_rate_over_theirs() -> None:
    ours_and_theirs = {"qmgrd": (900, 1_000, 5_000), "redis": (400, 500, 600)}
    runs = [
        run("W1b", server, rate, number=at)
        for server, rates in ours_and_theirs.items()
        for at, rate in enumerate(rates)
    ]
    ours, theirs = summary(runs)
    assert (ours["messages_per_second"], ours["lowest"], ours["highest"]) == (1_000, 900, 5_000)
    assert "ratio" not in ours
    assert theirs["ratio"] == 2.25
    assert theirs["runs"] == 3


def test_ratio_to_a_peer_is_that_within_each_round_that_both_did() -> None:
    """The ratio does not change if the disk becomes ten times slower between two rounds."""
    runs = [run("W1b", "qmgrd", rate, number=at) for at, rate in enumerate((10, 100, 90))]
    runs += [run("W1b", "redis", rate, number=at) for at, rate in enumerate((20, 200))]
    assert summary(runs)[1]["ratio"] == 0.5


def test_busy_machine_is_reported() -> None:
    assert busy_warning(0.2) == ""
    assert "busy (load 6.2)" in busy_warning(6.2)


def test_summary_leaves_out_what_was_not_measured() -> None:
    (row,) = summary([run("W3", "redis", 5, p50_ms=None)])
    assert "p50_ms" not in row
    assert "ratio" not in row


@pytest.mark.parametrize(
    ("arguments", "environment", "rows", "peers"),
    [
        ([], {}, [*ROWS, *OWN_ROWS], PEERS),
        ([], {"ROWS": "W1a,10M"}, ["W1a", "10M"], PEERS),
        ([], {"ROWS": "W1a W3", "PEERS": "redis"}, ["W1a", "W3"], ["redis"]),
        (["--rows", "W1a,W1b", "W2"], {"ROWS": "W3"}, ["W1a", "W1b", "W2"], PEERS),
        (["--rows", "W4", "--peers", "none"], {}, ["W4"], ["none"]),
    ],
)
def test_rows_and_peers_are_options_or_environment(
    arguments: list[str], environment: dict[str, str], rows: list[str], peers: list[str]
) -> None:
    options = parse(arguments, environment)
    assert (options.rows, options.peers) == (rows, peers)


def test_seconds_are_heard_from_the_environment() -> None:
    assert parse([], {"SECONDS": "0.5"}).seconds == 0.5
    assert parse(["--seconds", "2"], {"SECONDS": "0.5"}).seconds == 2
    assert parse([], {"SCALE": "0.1"}).scale == 0.1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--rows", "W9"], "'W9' is not one of W1a, W1b"),
        (["--peers", "kafka"], "'kafka' is not one of redis"),
        (["--seconds", "0"], "must be positive"),
        (["--scale", "0"], "must be positive"),
        (["--rounds", "0"], "must be positive"),
    ],
)
def test_wrong_option_is_explained(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments, {})
    assert end.value.code == 2
    assert why in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.process
def test_comparison_measures_tells_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--rows", "W1a", "W1b", "W2", "W3", "--peers", "redis", "redis-batch"]
    where = ["--dir", str(tmp_path / "data"), "--json", str(tmp_path / "out" / "bench.json")]
    code = bench.main([*words, *where, "--seconds", "0.1", "--rounds", "1"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    report = json.loads((tmp_path / "out" / "bench.json").read_text())
    servers = list(report["versions"])
    assert servers[0] == "qmgrd"
    assert [(row["row"], row["server"]) for row in report["rows"]] == [
        (row, server)
        for row in ("W1a", "W1b", "W2", "W3")
        for server in servers
        if takes_part(server, row, [row])
    ]
    assert all(row["messages_per_second"] > 0 for row in report["rows"])
    assert all(("ratio" in row) == (row["server"] != "qmgrd") for row in report["rows"])
    assert "QMGRD/IT" in shown.out
    assert list((tmp_path / "data").iterdir()) == []


def test_row_of_ours_has_the_peers_of_the_other_row() -> None:
    runs = [run("W1b", "qmgrd", 1_000), run("W1b", "redis", 500), run("W1b-1", "qmgrd", 250)]
    found = [(row["row"], row["server"], row.get("ratio")) for row in summary(runs)]
    assert found == [
        ("W1b", "qmgrd", None),
        ("W1b", "redis", 2.0),
        ("W1b-1", "qmgrd", None),
        ("W1b-1", "redis", 0.5),
    ]


@pytest.mark.process
def test_existing_files_in_the_directory_are_kept(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").touch()
    where = ["--dir", str(tmp_path), "--json", str(tmp_path / "bench.json"), "--peers", "none"]
    assert bench.main(["--rows", "W1a", *where, "--seconds", "0.05", "--rounds", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bench.json",
        "bench.md",
        "data",
        "img",
    ]
    assert (tmp_path / "data" / "precious").exists()


@pytest.mark.process
def test_peer_that_is_not_installed_is_reported_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    where = ["--dir", str(tmp_path / "data"), "--json", str(tmp_path / "bench.json")]
    assert (
        bench.main(
            ["--rows", "W1a", "--peers", "redis", *where, "--seconds", "0.05", "--rounds", "1"]
        )
        == 0
    )
    shown = capsys.readouterr()
    assert "redis is not installed and is skipped" in shown.err
    assert list(json.loads((tmp_path / "bench.json").read_text())["versions"]) == ["qmgrd"]


class Refusing:
    """A peer that has a version, but does not start."""

    name = "redis"

    def start(self, directory: Path) -> None:
        raise LoadFailed(f"{self.name} was asked")

    def stop(self) -> None:
        pass


def test_only_ours_puts_one_a_frame(tmp_path: Path) -> None:
    """If no other row measures the peers, a peer takes part in one of our rows."""
    with pytest.raises(LoadFailed, match="redis was asked"):
        run_once(cast(Server, Refusing()), ROWS["W1b-1"], Setting(tmp_path, 0.1, 1))


def test_peer_that_fails_is_reported_and_left_out(tmp_path: Path) -> None:
    notes: list[str] = []
    peer, setting = cast(Server, Refusing()), Setting(tmp_path, 0.1, 2, note=notes.append)
    assert list(compare([peer], ["W1a", "W1b"], setting)) == []
    assert notes == ["redis failed in W1a and is skipped from now on: redis was asked"]


@pytest.mark.long
@pytest.mark.process
def test_rounds_alternate_their_direction(tmp_path: Path) -> None:
    runs = compare(SERVERS[:1], ["W1a", "W1b"], Setting(tmp_path, 0.05, 2))
    assert [(run["round"], run["row"]) for run in runs] == [
        (1, "W1a"),
        (1, "W1b"),
        (2, "W1b"),
        (2, "W1a"),
    ]


def test_ours_comes_right_behind_what_it_is_held_against() -> None:
    servers = SERVERS[:2]
    named = [(row, server.name) for row, server in turns(servers, ["W1b", "W2", "W4"])]
    assert named == [
        ("W1b", "qmgrd"),
        ("W4", "qmgrd"),
        ("W1b", "redis"),
        ("W2", "qmgrd"),
        ("W2", "redis"),
        ("W4", "redis"),
    ]
    alone = [(row, server.name) for row, server in turns(servers, ["W4"])]
    assert alone == [("W1b", "qmgrd"), ("W4", "qmgrd"), ("W4", "redis")]
