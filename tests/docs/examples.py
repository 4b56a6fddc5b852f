"""Runs the examples of a page as one shell session, and compares their output with the page.

The kind of a fenced block defines its role:

    console   lines with `$ command`, each with its output, which is compared if the page shows it
    python    a program, whose output is in the `output` block after it
    toml      a configuration
    text      a drawing or a format, but not an example

A block after `<!-- not run: why -->` is not run. All other blocks of a page run in order, in one
shell, with a temporary directory for /tmp and free ports for 7470 and up. A line `...` matches any
number of lines. Values that differ between runs (times, ids, sizes) are compared by their form.

Steps follow each other without a pause, as if a user pasted the page: a command right after the
start of a daemon waits for the daemon. The time limit is longer than the usual 3 s, because the
machine may be busy.

Until the page creates a context, QMCTL_CONNECT makes qmctl connect to port 7470.
"""

import contextlib
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from qmgr_bench.server import free_port
from qmgr_tools.cli import connect_retry

KINDS = ("console", "python", "output", "toml", "text")
PORT = re.compile(r"(?<=127\.0\.0\.1:)74\d\d\b")
WAITING = re.compile(r"^retrying for up to \d+ s: .*\n", re.MULTILINE)  # printed on a busy machine
MARK = "\x1e"
TIMEOUT_S = 280  # a deadline, not a measurement: Spark takes a minute on a busy machine
VOLATILE = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "WHEN"),
    (re.compile(r"(?<=ends )\d{4}-\d\d-\d\d"), "DAY"),  # of a certificate
    (re.compile(r"\b[0-9a-f]{8,}(-\d+)*\b"), "ID"),
    (re.compile(r"\bnow\b|\b[\d,.]+ ?(ms|s|min)\b( ago)?"), "AGO"),
    (re.compile(r"\b[\d,.]+ (B|KiB|MiB|GiB|TiB)\b"), "SIZE"),
    (re.compile(r"\bqmctl\.\S+\.\d+\b"), "qmctl.HOST.PID"),
    (re.compile(r"\bpid +\d+|\(process \d+\)"), "pid PID"),
    (re.compile(r"[ \t─━│┃┏┓┗┛┌┐└┘├┤┬┴┼╇╈]+"), " "),
]


class BadPage(AssertionError):
    """Raised if the page breaks a convention, or if an example differs from the page."""


@dataclass
class Block:
    """A fenced block, and the line where it begins."""

    kind: str
    text: str
    line: int
    is_run: bool


@dataclass
class Step:
    """A command of the session, and its output on the page (None if the page shows no output)."""

    line: int
    command: str
    shown: str | None


def blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of a page.

    Raises:
        BadPage: A block has no kind.
    """
    comment = ""
    for token in MarkdownIt().enable("table").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            comment = token.content
        elif token.type == "code_block":
            raise BadPage(f"line {line}: an indented block has no kind: fence it")
        elif token.type == "fence":
            kind = token.info.strip()
            is_run = not re.match(r"<!-- not run: \S.* -->", comment)
            if kind not in KINDS and is_run:
                raise BadPage(f"line {line}: a block is {kind or 'nothing'!r}, not one of {KINDS}")
            yield Block(kind, token.content, line, is_run)
            comment = ""
        elif token.nesting >= 0 and token.type != "inline":
            comment = ""


def steps(text: str, directory: Path) -> list[Step]:
    """Returns the session of a page; writes its programs to *directory*."""
    found: list[Step] = []
    for block in blocks(text):
        if not block.is_run or block.kind == "text":
            continue
        if block.kind == "console":
            found += console(block)
        elif block.kind == "output":
            if not (block.text and found and found[-1].command.startswith("python ")):
                raise BadPage(f"line {block.line}: an output block without a program")
            found[-1].shown = block.text
        else:
            file = directory / f"line{block.line}.{'py' if block.kind == 'python' else 'toml'}"
            file.write_text(block.text)
            checks = {"python": f"python {file}", "toml": f"qmgrd --check --config {file}"}
            found.append(Step(block.line, checks[block.kind], None))
    return found


def console(block: Block) -> Iterator[Step]:
    """Yields the commands of the console block *block*."""
    step: Step | None = None
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            if step:
                yield step
            step = Step(number, line[2:], None)
        elif step is None:
            raise BadPage(f"line {number}: a console block begins with '$ '")
        elif step.shown is None and step.command.endswith("\\"):
            step.command += f"\n{line}"
        else:
            step.shown = (step.shown or "") + line + "\n"
    if step:
        yield step


def free_ports(count: int) -> list[int]:
    """Returns ports that are currently free."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


def run(text: str) -> list[str]:
    """Runs the examples of a page; returns the differences from the page."""
    return list(faults(*went(text)))


def went(text: str) -> tuple[list[Step], list[str], list[int]]:
    """Runs the examples of a page; returns its steps, their output and their exit codes."""
    here = Path(tempfile.mkdtemp(prefix="qm"))
    try:
        session = steps(text, here)
        named = sorted({*PORT.findall(text), "7470"})
        ports = {name: str(port) for name, port in zip(named, free_ports(len(named)), strict=True)}
        for file in here.glob("line*"):
            file.write_text(placed(file.read_text(), here, ports))
        return session, *played(session, here, ports)
    finally:
        shutil.rmtree(here, ignore_errors=True)


def rewritten(text: str) -> str:
    """Returns the page, updated with the current output of its commands."""
    lines = text.splitlines(keepends=True)
    session, output, _ = went(text)
    for step, printed in reversed(list(zip(session, output, strict=True))):
        if step.shown is not None and not matches(step.shown, printed):
            first = text.count("\n", 0, text.index(step.shown, _offset(lines, step.line)))
            tidy = [line.rstrip() for line in printed.strip("\n").splitlines()]
            shown = "\n".join(elided(tidy, step.shown.splitlines()))
            lines[first : first + step.shown.count("\n")] = [f"{shown}\n"]
    return "".join(lines)


def elided(printed: list[str], shown: list[str]) -> list[str]:
    """Returns the output, shortened to the lines around each `...` on the page."""
    if "..." not in shown:
        return printed
    before, behind = shown.index("..."), shown[::-1].index("...")
    if before + behind >= len(printed):
        return printed
    return [*printed[:before], "...", *printed[len(printed) - behind :]]


def _offset(lines: list[str], number: int) -> int:
    return sum(map(len, lines[: number - 1]))


def placed(text: str, here: Path, ports: dict[str, str]) -> str:
    """Returns *text* with the directory and ports of this run in place of those on the page."""
    text = PORT.sub(lambda match: ports[match[0]], text)
    return re.sub(r"(?<![\w/])/tmp/(?!qm)", f"{here}/", text)


def played(session: list[Step], here: Path, ports: dict[str, str]) -> tuple[list[str], list[int]]:
    """Runs the session on a terminal; returns the output and the exit code of each step."""
    script = ["cd " + shlex.quote(str(here)), "trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT"]
    for step in session:
        script.append(placed(step.command, here, ports))
        script += ["code=$?"]
        if step.command.startswith("qmctl context create"):
            script.append("unset QMCTL_CONNECT")
        script.append(f"printf '{MARK}%s{MARK}' $code")
    (here / "session.sh").write_text("\n".join(script) + "\n")
    printed = on_terminal(
        ["bash", "--noprofile", "--norc", str(here / "session.sh")],
        {
            **os.environ,
            "HOME": str(here),
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "QMCTL_CONNECT": f"127.0.0.1:{ports['7470']}",
            connect_retry.ENVIRONMENT: "60s",
        },
    )
    for name, port in ports.items():
        printed = printed.replace(f"127.0.0.1:{port}", f"127.0.0.1:{name}")
    parts = printed.replace(str(here), "/tmp").split(MARK)
    return parts[0:-1:2], [int(code) for code in parts[1::2]]


def on_terminal(command: list[str], environ: dict[str, str]) -> str:
    """Runs a command on a terminal; returns its output."""
    main, side = pty.openpty()
    with subprocess.Popen(
        ["timeout", str(TIMEOUT_S), *command],
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=side,
        env=environ,
    ):
        os.close(side)
        printed = b""
        with contextlib.suppress(OSError):  # EIO marks the end of the output of a terminal.
            while data := os.read(main, 1 << 16):
                printed += data
    os.close(main)
    return printed.decode().replace("\r\n", "\n")


def faults(session: list[Step], output: list[str], codes: list[int]) -> Iterator[str]:
    """Yields the steps whose output or exit code differs from the page."""
    for number, step in enumerate(session):
        if number >= len(output):
            yield f"line {step.line}: {step.command}: did not end"
            return
        printed, code = output[number], codes[number]
        if step.shown is not None and not matches(step.shown, printed):
            yield f"line {step.line}: {step.command}\nshown:\n{step.shown}\nprinted:\n{printed}"
        if code and not (step.shown or "").startswith("error:"):
            yield f"line {step.line}: {step.command}: exit code {code}\n{printed}"


def matches(shown: str, printed: str) -> bool:
    """Returns whether an output matches the page, except for values that differ between runs."""
    printed = WAITING.sub("", printed)
    lines = [
        "(.*\n)?" if line.strip() == "..." else re.escape(formed(line)) + "\n"
        for line in shown.strip().splitlines()
    ]
    found = "".join(f"{formed(line)}\n" for line in printed.strip().splitlines())
    return re.fullmatch("".join(lines), found, re.DOTALL) is not None


def formed(line: str) -> str:
    """Returns *line* with placeholders for values that differ between runs."""
    for pattern, word in VOLATILE:
        line = pattern.sub(word, line)
    return line.strip()
