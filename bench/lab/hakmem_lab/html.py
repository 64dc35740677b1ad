"""The HTML report: one file, charts and all, from a summary document."""

import json
from pathlib import Path

import jinja2

from . import figures, judge, stats
from .errors import LabError
from .own.charts import parts as own_parts
from .report import digits, groups_of
from .summaries import without_false_intervals
from .tables import LIMIT, SUBJECT
from .verdict import about_speed

TEMPLATES = Path(__file__).parent / "templates"


def _count(number) -> str:
    return f"{number:,.0f}".replace(",", "\u202f")


def _interval(ratio) -> str:
    return judge.interval(ratio, 3)


def _lines(rows, order) -> list:
    """One line of the table per row and allocator."""
    return [
        {"row": row, "name": name, "title": order[name], "cell": row["allocators"][name],
         "best": name == row.get("best")}
        for row in rows
        for name in order
        if name in row["allocators"]
    ]  # fmt: skip


def _columns(rows) -> dict:
    """Which of the columns that few rows have are of use here."""
    cells = [cell for row in rows for cell in row["allocators"].values()]
    found = {name: any(name in cell for cell in cells) for name in ("net_ns", "net_rss_kb")}
    return {**found, "memory": any("memory" in row for row in rows)}


def _geomeans(rows, order, base) -> list:
    """Per allocator: geometric means over the rows it shares with the base."""
    found = []
    for name, title in order.items():
        pairs = figures.points(rows, name)
        if name in (base, LIMIT) or not pairs:
            continue
        found.append({
            "title": title, "rows": len(pairs),
            "speed": stats.geomean([1 / time for time, _ in pairs]),
            "rss": stats.geomean([size for _, size in pairs]),
        })  # fmt: skip
    return sorted(found, key=lambda line: -line["speed"])


def _tiles(summary) -> list:
    """(figure, what it is) for the head of the page."""
    rows, verdict = summary["rows"], summary["verdict"]
    judged = [row for row in rows if "ratio" in row and about_speed(row)]
    tiles = []
    if verdict:
        tiles.append((f"{sum(v['ok'] for v in verdict)} of {len(verdict)}", "goals reached"))
    if judged:
        found = judge.tally(judged)
        for sign, what in ((1, "ahead of the best of the others"), (0, "even with it"),
                           (-1, "behind it"), (None, "no verdict: too few rounds")):  # fmt: skip
            if found[sign] or sign in (1, -1):
                tiles.append((f"{len(found[sign])} of {len(judged)}", f"rows {what}"))
        mean = stats.geomean([row["ratio"]["value"] for row in judged])
        tiles.append((f"{mean:.3f}", "speed / best peer's, geometric mean"))
        sizes = [
            row["allocators"][SUBJECT]["rss_kb"] / row["allocators"][row["best"]]["rss_kb"]
            for row in judged
            if row["allocators"][row["best"]]["rss_kb"] > 0
        ]
        if sizes:
            tiles.append((f"{stats.geomean(sizes):.3f}", "peak RSS / that peer's"))
    tiles.append((_count(summary["total_samples"]), "samples"))
    return tiles


def _behind(rows) -> list:
    """Rows on which the subject is not ahead, the worst first."""
    judged = [row for row in rows if about_speed(row)]
    return sorted(judge.tally(judged)[-1], key=lambda row: row["ratio"]["value"])


def _charts(rows, groups, order, base, title) -> dict:
    """All drawings; none where there is nothing to compare."""
    if len(order) < 2 or base is None or not rows:
        return {"bars": {}, "heat": "", "scatter": ""}
    return {
        "bars": {
            group: figures.bars([r for r in rows if r["group"] == group], order, base, text)
            for group, text in groups.items()
        },
        "heat": figures.heat_map(rows, order, base, title),
        "scatter": figures.scatter(rows, order, base, title),
    }


def render(summary) -> str:
    groups = groups_of(summary["rows"])
    rows = [row for group in groups for row in summary["rows"] if row["group"] == group]
    there = {name for row in rows for name in row["allocators"]}
    order = {n: about["title"] for n, about in summary["allocators"].items() if n in there}
    base = summary.get("base")
    title = order.get(base, base or "")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters.update(digits=digits, count=_count, interval=_interval, sign=judge.sign,
                              word=judge.word)
    return environment.get_template("report.html.j2").render(
        heading=summary.get("title") or f"{title} beside other allocators",
        summary=summary, groups=groups, rows=rows, order=order, base=base, title=title,
        tiles=_tiles(summary), behind=_behind(rows), geomeans=_geomeans(rows, order, base),
        charts=_charts(rows, groups, order, base, title), lines=_lines, columns=_columns,
        limit=LIMIT, made_of=judge.made_of(summary).replace("**", ""),
        legend=judge.LEGEND.replace("*", ""), is_short=judge.is_short,
        titles={row["key"]: row["title"] for row in rows}, own=own_parts(summary, order, base),
    )  # fmt: skip


def write(summary, path) -> None:
    Path(path).write_text(render(summary), encoding="utf-8")


def run(options) -> int:
    """`lab report FOLDER`"""
    print(again(options.folder))
    return 0


def again(folder) -> Path:
    """Draws the report of a folder anew, from its summary.json."""
    source, target = Path(folder) / "summary.json", Path(folder) / "report.html"
    try:
        write(without_false_intervals(json.loads(source.read_text())), target)
    except OSError as error:
        raise LabError(f"{error.filename}: {error.strerror}") from None
    except (ValueError, KeyError):
        raise LabError(f"{source} is not the summary of a comparison") from None
    return target
