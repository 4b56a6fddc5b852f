"""A bar chart in SVG, with colours that colour-blind people can distinguish."""

from html import escape

from qmgr_bench.target import Bars, number

WIDTH, NAMES, VALUES, TOP, BAR, GAP = 720, 150, 90, 56, 20, 8
OURS, OTHERS, INK, PAPER = "#0072b2", "#9a9a9a", "#222222", "#ffffff"


def picture(title: str, unit: str, bars: Bars) -> str:
    """Returns a chart of *bars*. A bar has a name, a value, and whether it is highlighted."""
    height = TOP + len(bars) * (BAR + GAP) + GAP
    most = max((value for _, value, _ in bars), default=0) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="42" fill="#555555">{escape(unit)}</text>',
    ]
    for line, (name, value, is_ours) in enumerate(bars):
        y = TOP + line * (BAR + GAP)
        width = max(value / most * (WIDTH - NAMES - VALUES), 1)
        base = y + BAR * 0.72
        weight = ' font-weight="bold"' if is_ours else ""
        parts += [
            f'<text x="{NAMES - 8}" y="{base:.0f}" text-anchor="end"{weight}>{escape(name)}</text>',
            f'<rect x="{NAMES}" y="{y}" width="{width:.1f}" height="{BAR}" '
            f'fill="{OURS if is_ours else OTHERS}"/>',
            f'<text x="{NAMES + width + 6:.1f}" y="{base:.0f}"{weight}>{number(value)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
