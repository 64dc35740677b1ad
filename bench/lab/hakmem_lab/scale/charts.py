"""Charts of transfers per operation, and of the bound, against the number of CPUs."""

from .. import figures as page

LEAST = 1e-5  # transfers per operation; fewer are drawn here
WIDTH, HEIGHT = 12.4, 3.4


def _panel(axis, cells, order, cpus, figure, title):
    for number, name in enumerate(order):
        points = [(n, cells[name, n][figure]) for n in cpus if (name, n) in cells]
        if not points:
            continue
        colour = page.BASE_BAR if number == 0 else page.SERIES[number % len(page.SERIES)]
        at = [n for n, _ in points]
        axis.plot(at, [max(p["median"], LEAST) for _, p in points], color=colour, linewidth=1.6,
                  marker=page.MARKERS[number % len(page.MARKERS)], label=order[name])  # fmt: skip
        axis.fill_between(at, [max(p["low"], LEAST) for _, p in points],
                          [max(p["high"], LEAST) for _, p in points],
                          color=colour, alpha=0.15, linewidth=0)  # fmt: skip
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(cpus, [str(n) for n in cpus])
    axis.minorticks_off()
    axis.set_title(title, loc="left", fontweight="bold")
    axis.set_xlabel("CPUs")
    axis.grid(color=page.LINE, linewidth=0.6)


def draw(cells, order, cpus, load) -> str:
    """An <svg> element; `cells` is {(allocator, CPUs): figures} of one workload."""
    plt = page._pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, HEIGHT), layout="constrained")
    _panel(axes[0], cells, order, cpus, "transfers", "transfers / operation")
    _panel(axes[1], cells, order, cpus, "bound_mops", "bound, million operations / s")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    return page._svg(plt, figure, f"{load}: transfers per operation and bound against CPUs")
