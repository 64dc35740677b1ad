"""The chart of a cost document: every peer beside the base, a panel for each figure."""

from ..chart import COLOURS, MARKERS
from . import figures

PANELS = ("instructions", "allocator", "l1", "l2", "faults", "peak_rss_kb")


def draw(document, path) -> list:
    """Writes <path>.png and <path>.svg; returns their names."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    programs, names = list(document["programs"]), figures.others(document)
    if not names:
        return []
    sheet, panels = plt.subplots(2, 3, figsize=(15, 3 + 0.5 * len(programs)), sharey=True,
                                 layout="constrained")  # fmt: skip
    base = document["allocators"][document["base"]]["title"]
    for axes, figure in zip(panels.flat, PANELS):
        for name, colour, marker in zip(names, COLOURS * 2, MARKERS * 2):
            points = [
                (figures.ratio(document, figure, program, name), place)
                for place, program in enumerate(programs)
            ]
            points = [(1 / x, y) for x, y in points if x]
            if points:
                axes.scatter(*zip(*points), s=26, color=colour, marker=marker, zorder=3,
                             label=document["allocators"][name]["title"])  # fmt: skip
        axes.axvline(1.0, color="#222222", linewidth=1.4, zorder=2)
        axes.set_xscale("log")
        axes.set_title(f"{figures.FIGURES[figure][0]} / {base}'s", fontsize=10, loc="left")
        axes.grid(axis="x", color="#dddddd", linewidth=0.7, which="both")
    panels[0][0].set_yticks(range(len(programs)), programs, fontsize=8)
    panels[0][0].set_ylim(len(programs) - 0.5, -0.5)
    handles, labels = panels[0][0].get_legend_handles_labels()
    sheet.legend(handles, labels, loc="outside lower center", ncols=8, fontsize=9, frameon=False)
    sheet.suptitle(f"counted costs; right of the line: more than {base}", fontsize=10)
    written = []
    for ending in ("png", "svg"):
        sheet.savefig(f"{path}.{ending}", dpi=110)
        written.append(f"{path}.{ending}")
    plt.close(sheet)
    return written
