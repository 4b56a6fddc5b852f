"""Tests that the built site contains all pages, and that the build reports faults in a page."""

import subprocess
import sys
from pathlib import Path

import pytest

from docs import build


def test_link_points_to_the_page_or_to_a_copy_of_the_file(tmp_path: Path) -> None:
    text = "[a](../PROMISES.md#order) [b](../../config/qmgrd.toml) [c](../../tests) [d](no.md)"
    pages = {"docs/PROMISES.md": "PROMISES.md"}
    assert build.linked(text, "docs/adr/x.md", "adr/x.md", pages, tmp_path) == (
        '[a](../PROMISES.md#order) <a href="../_static/files/config/qmgrd.toml">b</a> c [d](no.md)'
    )
    copy = tmp_path / "_static/files/config/qmgrd.toml"
    assert copy.read_text() == (build.REPO / "config/qmgrd.toml").read_text()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="none.html">', "none.html: broken link"),
        ('<a href="other.html#none">', "other.html#none: broken anchor"),
        ('<a href="#none">', "#none: broken anchor"),
        ('<script src="https://cdn.example/x.js">', "loads https://cdn.example/x.js"),
        ('<link href="//cdn.example/x.css">', "loads //cdn.example/x.css"),
    ],
)
def test_broken_and_external_references_are_found(tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "other.html").write_text('<p id="here">')
    assert list(build.faults(tmp_path)) == [f"index.html: {fault}"]


def test_style_that_loads_from_another_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('@import url("https://fonts.example/a.css"); b { url(c.png) }')
    assert list(build.faults(tmp_path)) == ["a.css: loads https://fonts.example/a.css"]


def test_correct_page_has_no_faults(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here"><a href="https://else.example/"><img src="data:image/png,x">'
    )
    (tmp_path / "other.html").write_text('<p id="here"><a href="index.html#">')
    assert list(build.faults(tmp_path)) == []


def test_each_page_of_the_contents_is_gathered(tmp_path: Path) -> None:
    build.gather(tmp_path)
    index = (tmp_path / "index.md").read_text()
    assert sum(map(len, build.CONTENTS.values())) >= 25
    for names in build.CONTENTS.values():
        for name in names:
            assert (tmp_path / f"{name}.md").is_file()
            assert f"\n{name}\n" in index
    assert (tmp_path / "top.svg").is_file()
    gathered = {path.stem for path in (tmp_path).glob("*.md")} - {"index"}
    assert gathered <= {name for names in build.CONTENTS.values() for name in names}


@pytest.mark.long
@pytest.mark.slow
def test_site_is_built_without_a_fault(tmp_path: Path) -> None:
    """Sphinx treats warnings as errors, and a broken reference is a warning."""
    found = subprocess.run(
        [sys.executable, "-m", "docs.build", tmp_path],
        cwd=build.REPO,
        capture_output=True,
        text=True,
    )
    assert (found.stdout, found.returncode) == (f"{tmp_path}/site/index.html\n", 0), found.stderr
    names = {path.relative_to(tmp_path / "site").as_posix() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "cli.html", "errors.html", "api/client.html", "protocol.html"} <= names
