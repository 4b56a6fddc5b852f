"""The benchmark's own rows as Markdown: the newest run of each, its targets, its figures."""

from collections.abc import Sequence
from typing import Any

Run = dict[str, Any]


def markdown(runs: Sequence[Run], names: Sequence[str]) -> str:
    """Return the newest of *runs* for each of the rows *names* that has one."""
    newest = {run["row"]: run for run in runs}
    found = [newest[name] for name in names if name in newest]
    parts = ["# Rows of our own", _table(("row", "what", "measured", "target", ""), [
        (run["row"], *target_cells(target)) for run in found for target in run["targets"]
    ])]  # fmt: skip
    for run in found:
        parts += [f"## {run['row']}", f"{run['about']}. {_how(run)}", *_figures(run["figures"])]
    return "\n\n".join(parts) + "\n"


def target_cells(target: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return what is measured, the figure, the target and whether it is reached."""
    unit = f" {target['unit']}" if target["unit"] else ""
    sign = ">=" if target["at_least"] else "<="
    measured, bound = number(target["measured"]), number(target["bound"])
    verdict = "reached"
    if not target["reached"]:
        percent = f"{target['missing_percent']:g} %"
        verdict = f"missed by {percent if target['bound'] else measured}"
    return target["what"], f"{measured}{unit}", f"{sign} {bound}{unit}", verdict


def series_csv(figures: dict[str, Any]) -> str:
    """Return the series among *figures* for a plot, a line a point; nothing where there is none."""
    for value in figures.values():
        if _is_series(value):
            keys = _keys(value)
            lines = [keys, *([str(point[key]) for key in keys] for point in value)]
            return "".join(",".join(line) + "\n" for line in lines)
    return ""


def _is_series(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _keys(series: list[dict[str, Any]]) -> list[str]:
    """Return the columns of a series; a histogram in a point is none."""
    return [key for key, value in series[0].items() if not isinstance(value, list)]


def number(value: float) -> str:
    """Return a figure with the digits that say something."""
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _how(run: Run) -> str:
    machine = run["machine"]
    return (
        f"{machine['at'][:16]}Z, {machine['cores']} cores, {machine['system']}, Python "
        f"{machine['python']}, load before {machine['load_before']:g}; 512 B and an fdatasync "
        f"took {run['disk_sync_ms']:g} ms; medians of {run['rounds']} rounds of "
        f"{run['seconds']:g} s at scale {run['scale']:g}."
    )


def _figures(figures: dict[str, Any]) -> list[str]:
    """Return the plain figures as one table, and each series as one of its own."""
    plain = [(key, _cell(value)) for key, value in figures.items() if not isinstance(value, list)]
    tables = [_table(("figure", ""), plain)] if plain else []
    for value in figures.values():
        if _is_series(value):
            keys = _keys(value)
            tables.append(_table(keys, [[_cell(point[key]) for key in keys] for point in value]))
    return tables


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else str(value)


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
