"""Tests that the picture of qmctl top shows only words that qmctl top prints."""

import html
import re
from pathlib import Path

from qmgr_tools.cli.output import STYLES
from qmgr_tools.queue.state import BREAKER, OPEN

PICTURE = Path(__file__).parents[2] / "docs" / "top.svg"
CELLS = re.compile(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')
CHARACTER = 12.2  # width of one character in the picture


def lines() -> list[str]:
    """Returns the text of the picture as lines of a terminal."""
    rows: dict[float, str] = {}
    for x, y, text in CELLS.findall(PICTURE.read_text()):
        before = rows.get(float(y), "").ljust(round(float(x) / CHARACTER))
        rows[float(y)] = before + html.unescape(text).replace("\xa0", " ")
    return [rows[y] for y in sorted(rows)]


def test_states_in_the_picture_exist() -> None:
    shown = lines()
    (head,) = [number for number, line in enumerate(shown) if " STATE " in line]
    place = shown[head].index("STATE")
    states = {line[place : place + 8].strip() for line in shown[head + 1 : head + 5]}
    assert states == {"open", "full", "waiting"}
    assert states <= {OPEN, BREAKER, *STYLES}
    facts = [line for line in shown if line.startswith("state ")]
    assert [line.split()[1] for line in facts] == ["open"]
