"""The charts of a published run: geometric means of each group, divided by HAKMEM's, as small SVG files."""

import textwrap

from . import figures

OTHERS = "#E69F00"
COLOURS = {"subject": "#0072B2", "variant": "#56B4E9", "limit": "#BBBBBB"}
COLUMNS = 3
TITLE_LETTERS = 44  # of a line; a panel is no wider
LEAST, MOST = 0.02, 50.0

CHARTS = {
    "speed": ("ops_per_s", "Speed divided by HAKMEM's: a bar beyond the line is faster than HAKMEM"),
    "memory": ("rss_kb", "Peak RSS divided by HAKMEM's: a bar beyond the line needs more memory"),
}


def _colour(summary, name) -> str:
    kind = summary["allocators"][name]["kind"]
    return COLOURS.get(kind, OTHERS)


def _panel(axes, summary, title, rows, field) -> None:
    bars = [(name, figures.means(rows, name, field)) for name in figures.names(summary)]
    bars = [(name, value) for name, value in bars if value is not None]
    values = [min(max(value, LEAST), MOST) for _, value in bars]
    colours = [_colour(summary, name) for name, _ in bars]
    axes.barh(range(len(bars)), values, color=colours, height=0.7)
    for place, (_, value) in enumerate(bars):  # in a column of its own, where no line crosses it
        axes.text(1, place, f"{value:.2f}", transform=axes.get_yaxis_transform(), ha="right",
                  va="center", fontsize=7)  # fmt: skip
    axes.set_yticks(
        range(len(bars)), [figures.title(summary, name) for name, _ in bars], fontsize=7
    )
    axes.invert_yaxis()
    axes.axvline(1.0, color="#222222", linewidth=0.8)
    axes.set_xlim(0, max([*values, 1.0]) * 1.2)
    axes.tick_params(axis="x", labelsize=7)
    text = textwrap.fill(f"{title} ({len(rows)})", TITLE_LETTERS)
    axes.set_title(text, fontsize=8, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(summary, folder) -> dict:
    """Writes <folder>/<chart>.svg; {chart: file}."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups, files = figures.groups(summary), {}
    lines = -(-len(groups) // COLUMNS)
    height = 0.7 + 0.19 * len(figures.names(summary))
    for chart, (field, caption) in CHARTS.items():
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hakmem"}):
            figure, panels = plt.subplots(
                lines, min(COLUMNS, len(groups)), figsize=(13, max(height, 1.6) * lines + 0.4),
                squeeze=False, layout="constrained",
            )  # fmt: skip
            spare = list(panels.flat)
            for title, rows in groups.items():
                _panel(spare.pop(0), summary, title.split(" (")[0], rows, field)
            for axes in spare:
                axes.axis("off")
            figure.suptitle(f"{caption}. Geometric means over the rows of each group (in brackets: their number)", fontsize=9)
            files[chart] = folder / f"{chart}.svg"
            figure.savefig(files[chart], metadata={"Date": None})
            plt.close(figure)
    return files
