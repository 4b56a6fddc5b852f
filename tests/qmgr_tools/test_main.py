import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from qmgr_tools.cli.failure import MEANINGS
from tests.qmgr_tools.conftest import QMCTL, Daemon, OnTerminal, Qmctl

NOUNS = ("queue", "link", "connection", "context")
COMMANDS = [
    ["status"],
    ["top"],
    ["put"],
    ["get"],
    ["browse"],
    ["snapshot", "create"],
    *(["queue", verb] for verb in ("create", "alter", "ls", "show", "delete", "purge")),
    *(["link", verb] for verb in ("create", "ls", "show", "start", "stop", "delete")),
    ["context", "show"],
    *(["connection", verb] for verb in ("ls", "close")),
    *(["bench", verb] for verb in ("put", "get", "putget")),
]


def test_help_has_the_exit_codes(qmctl: Qmctl) -> None:
    ended = qmctl("--help")
    assert ended.code == 0
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>4}  {meaning}" in ended.out


def test_version_is_told(qmctl: Qmctl) -> None:
    ended = qmctl("--version")
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"qmctl/\d+\.\d+\.\d+\n", ended.out)


@pytest.mark.parametrize(
    ("group", "title"),
    [
        ([], "Messages:"),
        *(([name], "Commands:") for name in ("queue", "link", "connection", "context")),
    ],
    ids=["", "queue", "link", "connection", "context"],
)
def test_list_of_commands_has_whole_sentences(group: list[str], title: str, qmctl: Qmctl) -> None:
    commands = qmctl(*group, "--help").out.partition(title)[2]
    assert commands
    assert "..\n" not in commands.replace(", ...", "")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_explains_itself(words: list[str], qmctl: Qmctl) -> None:
    ended = qmctl(*words, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: qmctl {' '.join(words)} ")
    assert "JSON:" in ended.out
    for option in ("--connect", "--data-dir", "--context", "--output"):
        assert option in ended.out
    assert "\b" not in ended.out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_terminal(
    words: list[str], qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in qmctl(*words, "--help").out.splitlines() if len(line) > 80] == []


@pytest.mark.process
def test_error_on_a_terminal_fits_it(on_terminal: OnTerminal) -> None:
    lines = on_terminal("-c", "unix:/nowhere/qmgrd.sock", "status", COLUMNS="50").out.splitlines()
    assert lines[0] == "error: cannot show the status"
    assert len(lines) > 2
    assert all(len(line) <= 50 for line in lines)


@pytest.mark.parametrize("group", ["queue", "link", "connection", "bench", "context"])
def test_group_alone_shows_its_commands(group: str, qmctl: Qmctl) -> None:
    ended = qmctl(group)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"Usage: qmctl {group} ")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["frob"], "no such command 'frob'"),
        (["status", "--frob"], "no such option: --frob"),
        (["queue", "show"], "missing argument 'QUEUE'"),
        (["get", "Q", "--wait", "-5s"], "invalid value for '--wait': -5s is negative"),
        (
            ["get", "Q", "--wait", "soon"],
            "invalid value for '--wait': invalid duration \"soon\": use",
        ),
        (["get", "Q", "--wait", "5"], "invalid value for '--wait': duration 5 has no unit: use"),
        (
            ["queue", "create", "Q", "--lease", "30"],
            "invalid value for '--lease': duration 30 has no unit",
        ),
        (["bench", "put", "--duration", "0"], "invalid value for '--duration': 0 is too short"),
        (["get", "Q", "--count", "0"], "invalid value for '--count'"),
        (["put", "Q", "x", "--priority", "10"], "invalid value for '--priority': at most 9 --"),
        (["queue", "create", "Q", "--bytes-max", "-1"], "invalid value for '--bytes-max': -1 is"),
        (["status", "-o", "yaml"], "invalid value for '--output' / '-o': 'yaml' is not one of"),
        (["get", "Q", "--count", "-1"], "invalid value for '--count': at least 1 --"),
        (
            ["top", "-b", "-d", "2"],
            "invalid value for '--delay' / '-d': duration 2 has no unit: use",
        ),
        (["status", "--watch", "1"], "invalid value for '--watch': duration 1 has no unit: use"),
        (["queue", "rm", "Q"], "no such command 'rm'; did you mean delete? --"),
        (["queue", "delet", "Q"], "no such command 'delet'; did you mean delete? --"),
        (["sub", "remove", "Q"], "no such command 'remove'; did you mean delete? --"),
        (["publish", "T"], "no such command 'publish'; did you mean pub? --"),
        (["send", "Q"], "no such command 'send'; did you mean put? --"),
        (
            ["delete", "Q"],
            "no such command 'delete'; did you mean dlq delete, sub delete, topic delete, "
            "republish delete, queue delete, ",
        ),
        (["queue", "ls", "--srt", "ready"], "no such option: --srt; did you mean --sort? --"),
    ],
)
def test_wrong_usage_is_one_line(words: Sequence[str], error: str, qmctl: Qmctl) -> None:
    ended = qmctl(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {error}")
    assert ended.err.count("\n") == 1
    assert " -- see: qmctl" in ended.err


def test_options_may_stand_before_the_command_or_behind(qmctl: Qmctl, daemon: Daemon) -> None:
    before = qmctl("-c", daemon.unix, "-o", "json", "status")
    behind = qmctl("status", "--connect", daemon.tcp, "--output", "json")
    assert before.json["store_id"] == behind.json["store_id"]


def test_option_behind_the_command_wins(qmctl: Qmctl, daemon: Daemon) -> None:
    assert qmctl("-c", "unix:/nowhere", "-o", "json", "status", "-c", daemon.unix).code == 0
    found = qmctl("-c", "unix:/nowhere", "status", "--data-dir", str(daemon.data_dir))
    assert found.code == 0


@pytest.mark.process
def test_reader_that_goes_away_is_no_drama(daemon: Daemon) -> None:
    with subprocess.Popen(
        [*QMCTL, "-c", daemon.unix, "status"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.process
def test_help_loads_neither_client_nor_pydantic() -> None:
    program = (
        "import sys\nfrom qmgr_tools.main import run\nrun(['--help'])\nheavy = "
        "{'asyncio', 'pydantic', 'rich', 'structlog', 'qmgr_client'} & "
        "set(sys.modules)\nsys.exit(str(sorted(heavy)) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_interrupt_has_its_code(daemon: Daemon) -> None:
    program = (
        "import signal, sys\nfrom qmgr_tools.main import "
        "run\nsignal.setitimer(signal.ITIMER_REAL, 0.3)\nsignal.signal(signal.SIGALRM, "
        "signal.default_int_handler)\n"
        f"sys.exit(run(['-c', {daemon.unix!r}, 'get', 'WAITING', '--wait', '60s']))\n"
    )
    words = [*QMCTL, "-c", daemon.unix, "queue", "create", "WAITING"]
    subprocess.run(words, check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.process
def test_status_is_pleasant_on_a_terminal(on_terminal: OnTerminal) -> None:
    shown = on_terminal("status", NO_COLOR="1")
    assert shown.code == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    assert re.search(r"^messages        +[0-9]+ *$", text, re.MULTILINE)
    assert "\t" not in text
