"""Finds phrases in our texts that docs/STYLE.md replaces with plainer ones.

    python -m tests.english [--count] [PATH ...]     without a path: the whole repository

The program reads pages, and the comments, docstrings and other strings in code. Pages that show
such phrases as bad examples are skipped.
"""

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).parent.parent
LEFT_OUT = ("docs/STYLE.md", "tests/english.py", "tests/test_english.py", "LICENSE")
SUFFIXES = (".md", ".py", ".toml", ".txt", ".service")
CASE_MATTERS = ("clause as subject", "have it done")
PATTERNS = {
    name: re.compile(pattern, 0 if name in CASE_MATTERS else re.IGNORECASE)
    for name, pattern in {
        # "What is answered is on disk." A question or a heading may begin like that.
        "clause as subject": r"(?:^|(?<=[.;:] )|(?<=[.;:]  ))"
        r"(?:What|Who|Which|Whoever|Whatever|Whose|Whichever)\b(?![^.;:]*\?)(?=[^.;:]* )",
        "stands, lies": r"\b(?:stands?|stood|lies|lay)\b(?! for\b)",
        "tells": r"\b(?:tells?|told|telling)\b",
        "have it done": r"(?:^|[.;:] )Have \S+ (?:\S+ )*\w+",
        "is no": r"(?<!there )\b(?:is|are|be|was|were) no\b"
        r"(?! (?:longer|more|less|later|lower|higher|fewer|such)\b)",
        "is there": r"\b(?:is|are|was|were|be|not|still) there\b|\bthere already\b",
        "beside": r"\bbesides?\b",
        "anew": r"\banew\b",
        "put back": r"\bputs? back\b",
        "mend": r"\bmend(?:s|ed|ing)?\b",
        "unless said": r"\b(?:unless|nobody) said\b|\bsomebody\b",
        "as ever": r"\bas ever\b|\ball the same\b",
        "who puts": r"\b[Ww]ho (?:puts|consumes|waits)\b",
        "what waits": r"\b[Ww]hat (?:waits|is leased)\b",
        "is gone": r"\b(?:is|are|was|were) gone\b",
        "of its own": r"\bof its own\b",
        "must not be none": r"\bmust not be none\b|\bcan be no\b",
        "consecutive": r"\b(?:led|leads?) nowhere\b|\b\d+ \w+ in a row\b",
        "invalid": r"\bmakes? no sense\b",
    }.items()
}


class Hit(NamedTuple):
    """A phrase, and its location."""

    path: str
    line: int
    name: str
    text: str


def texts_of_code(source: str) -> Iterator[tuple[int, str]]:
    """Yields each line of a comment or a string in *source*, with its number."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if "#" in source else ()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.split("\n")):
                yield node.lineno + offset, line.strip()


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yields each line of prose in the file *path*, with its number."""
    content = path.read_text()
    if path.suffix == ".py":
        yield from texts_of_code(content)
        return
    for number, line in enumerate(content.splitlines(), 1):
        if path.suffix == ".md" and line.startswith("#"):
            yield number, line.lstrip("# ") + "?"  # A heading may be a clause.
        elif path.suffix != ".toml" and path.name != "Makefile":
            yield number, line.strip().lstrip("#*-> ")
        elif "#" in line:
            yield number, line.partition("#")[2].strip()


def name_of(path: Path) -> str:
    """Returns *path* as git shows it."""
    return path.resolve().relative_to(REPO).as_posix()


def hits(path: Path) -> Iterator[Hit]:
    """Yields the phrases in the file *path*."""
    return hits_in(name_of(path), texts(path))


def hits_in(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[Hit]:
    """Yields the phrases in *lines* of the file *name*."""
    for number, line in lines:
        for what, pattern in PATTERNS.items():
            for _ in pattern.finditer(line):
                yield Hit(name, number, what, line)


def files(names: list[str]) -> list[Path]:
    """Returns our files under *names*, or all of them."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *names], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [
        REPO / name
        for name in listed
        if (name.endswith(SUFFIXES) or name == "Makefile") and name not in LEFT_OUT
    ]


def main() -> None:
    """Lists the phrases, or counts them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="only how often each pattern occurs")
    parser.add_argument("paths", nargs="*")
    asked = parser.parse_args()
    found = [hit for path in files(asked.paths) if path.is_file() for hit in hits(path)]
    if asked.count:
        for name, count in Counter(hit.name for hit in found).most_common():
            print(f"{count:6}  {name}")
    else:
        for hit in found:
            print(f"{hit.path}:{hit.line}: {hit.name}: {hit.text[:100]}")
    print(f"{len(found):6}  in all")


if __name__ == "__main__":
    main()
