"""Builds the site from the pages and from the code. `make docs` runs it.

docs/*.md, docs/adr, PROTOCOL.md, CHANGELOG.md ──┐
the model of the configuration ─ configuration.md ├─▶ build/docs ──Sphinx──▶ build/site ──▶ checked
the commands of qmctl ────────────────── cli.md   │
the docstrings ─────────────────────── api/*.md ──┘
"""

import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.cmd.build import build_main

from docs import reference

REPO = Path(__file__).parent.parent
ELSEWHERE = {"protocol/PROTOCOL.md": "protocol.md", "CHANGELOG.md": "changelog.md"}
LEFT_OUT = {"docs/PLAN.md"}  # pages for developers of qmgrd
CONTENTS = {
    "Use": [
        "start",
        "concepts",
        "client",
        "SELECTORS",
        "proxy",
        "spark",
        "tables",
        "history",
        "export",
    ],
    "Operate": ["operating", "more-than-one-machine", "security", "configuration", "cli", "errors"],
    "Trust": ["PROMISES", "behaviour", "not-built", "benchmarks", "ledger"],
    "Look inside": [
        "ARCHITECTURE",
        "internals",
        "design",
        "adr/index",
        "protocol",
        "api/index",
        "STYLE",
        "changelog",
    ],
}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<to>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def main(folder: Path) -> int:
    """Builds the site in *folder*/site; returns 0 if the site has no faults."""
    source, site = folder / "docs", folder / "site"
    for old in (source, site):
        shutil.rmtree(old, ignore_errors=True)
    gather(source)
    if failed := build_main(["-W", "--keep-going", "-q", str(source), str(site)]):
        return failed
    complaints = sorted(faults(site))
    print("\n".join(complaints) or f"{site}/index.html")
    return bool(complaints)


def gather(source: Path) -> None:
    """Writes all pages to *source*, and adapts the links between them."""
    pages = {
        path.relative_to(REPO).as_posix(): path.relative_to(REPO / "docs").as_posix()
        for path in sorted((REPO / "docs").rglob("*.md"))
    } | ELSEWHERE
    made = {
        "configuration.md": reference.configuration(),
        "cli.md": reference.commands(),
        "errors.md": reference.errors(),
        "adr/index.md": decisions([name for name in pages.values() if name.startswith("adr/")]),
        **reference.python_names(),
    }
    for name, text in made.items():
        write(source / name, text)
    for path, name in pages.items():
        if path not in LEFT_OUT:
            write(source / name, linked((REPO / path).read_text(), path, name, pages, source))
    shutil.copy(REPO / "docs/conf.py", source)
    shutil.copytree(REPO / "docs/_static", source / "_static", dirs_exist_ok=True)
    for picture in (REPO / "docs").rglob("*.[sp][vn]g"):  # SVG and PNG
        copy = source / picture.relative_to(REPO / "docs")
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(picture, copy)
    with (source / "index.md").open("a") as index:
        index.writelines(toctree(caption, names) for caption, names in CONTENTS.items())


def write(path: Path, text: str) -> None:
    """Writes a page and creates its folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def toctree(caption: str, names: list[str]) -> str:
    """Returns a section of the table of contents with the pages *names*."""
    return "\n".join(
        ["", "```{toctree}", f":caption: {caption}", ":hidden:", "", *names, "```", ""]
    )


def decisions(names: list[str]) -> str:
    """Returns the page with the list of decisions."""
    pages = "\n".join(name.removeprefix("adr/").removesuffix(".md") for name in sorted(names))
    text = "# Decisions\n\nEach page gives the reason and the price of a decision."
    return f"{text}\n\n```{{toctree}}\n{pages}\n```\n"


def linked(text: str, path: str, name: str, pages: dict[str, str], source: Path) -> str:
    """Returns a page whose links point to pages of the site, or to copies of files."""

    def where(match: re.Match[str]) -> str:
        words, to, anchor = match["text"], match["to"], match["anchor"] or ""
        if urlsplit(to).scheme:
            return match[0]
        target = (REPO / path).parent.joinpath(to).resolve()
        known = target.relative_to(REPO).as_posix()
        if known in pages and known not in LEFT_OUT:
            return f"[{words}]({up(name)}{pages[known]}{anchor})"
        if target.is_file() and known not in LEFT_OUT:
            write(source / "_static" / "files" / known, target.read_text())
            return f'<a href="{up(name)}_static/files/{known}">{words.replace("`", "")}</a>'
        if target.exists():
            return words  # The folder or file exists only in the source tree.
        return match[0]  # Sphinx reports the broken link and its position.

    return LINK.sub(where, text)


def up(name: str) -> str:
    """Returns the relative path from a page to the top folder."""
    return "../" * name.count("/")


class Page(HTMLParser):
    """The references and the anchors of a page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Records the references and the anchor of a tag."""
        found = dict(attrs)
        self.ids.add(found.get("id") or "")
        if tag == "a" and found.get("href"):
            self.links.append(found["href"] or "")
        elif tag in ("link", "script", "img", "iframe", "source"):
            self.loaded.append(found.get("href") or found.get("src") or "")


def faults(site: Path) -> Iterator[str]:
    """Yields a text for each broken link, and for each file that a page loads from another site."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address}"
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                yield f"{name}: {link}: broken link"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield f"{name}: {link}: broken anchor"
    for style in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", style.read_text()):
            yield f"{style.relative_to(site)}: loads {address}"


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:]) if sys.argv[1:] else Path("build")))
