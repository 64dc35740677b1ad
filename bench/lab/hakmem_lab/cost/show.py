"""A cost document as tables: for people, and as the page that is kept."""

from . import figures

SHOWN = ("instructions", "allocator", "copies", "l1", "l2", "faults", "faults_small", "huge_pages",
         "syscalls", "peak_rss_kb", "mean_rss_kb", "model")  # fmt: skip


def _number(value) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _ratio(value) -> str:
    return "-" if value is None else f"{value:.3f}"


def _lines(head, rows) -> list:
    """A table in Markdown whose columns stand in line."""
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    texts = [
        "| " + " | ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        ) + " |"
        for row in table
    ]  # fmt: skip
    rule = "|" + "|".join("-" * (width + 1) + ("-" if place == 0 else ":")
                          for place, width in enumerate(widths)) + "|"  # fmt: skip
    return [texts[0], rule, *texts[1:]]


def table(document, figure) -> list:
    """The base's figure of each program, and its ratio to every other allocator's."""
    base, names = document["base"], figures.others(document)
    titles = {name: about["title"] for name, about in document["allocators"].items()}
    head = ["program", titles[base], *(f"/ {titles[name]}" for name in names)]
    rows = [
        [program, _number(figures.value(document, figure, program, base)),
         *(_ratio(figures.ratio(document, figure, program, name)) for name in names)]
        for program in document["programs"]
    ]  # fmt: skip
    means = figures.geomeans(document)[figure]
    if len(rows) > 1:
        rows.append(["geomean", "", *(_ratio(means[name]) for name in names)])
    return [f"### {figures.FIGURES[figure][0]}", "", *_lines(head, rows), ""]


def calls(document) -> list:
    """What the programs ask for, and what a call costs in the base's functions."""
    base, kinds = document["base"], ("malloc", "calloc", "realloc", "aligned", "free", "usable")
    rows = []
    for program, row in document["programs"].items():
        cell = row["cells"].get(base, {})
        if "calls" in cell:
            whole = sum(cell["calls"].values())
            each = cell["instructions"]["allocator"] / max(whole, 1)
            rows.append([program, *(_number(cell["calls"][kind]) for kind in kinds), f"{each:.1f}"])
    if not rows:
        return []
    head = ["program", *kinds, "instructions a call"]
    return ["### calls", "", *_lines(head, rows), ""]


def given_back(document) -> list:
    """Pages that the base gave back, and those touched again: their part of its faults."""
    base, rows = document["base"], []
    for program, row in document["programs"].items():
        cell = row["cells"].get(base, {})
        if "given_back" in cell and cell.get("faults_small"):
            share = cell["touched_again"] / cell["faults_small"] * 100
            rows.append([program, _number(cell["faults_small"]), _number(cell["given_back"]),
                         _number(cell["touched_again"]), f"{share:.2f} %"])  # fmt: skip
    if not rows:
        return []
    head = ["program", "faults", "given back", "touched again", "of the faults"]
    return ["### pages given back and touched again, without huge pages", "", *_lines(head, rows), ""]


def page(document) -> str:
    """All tables."""
    lines = []
    for figure in SHOWN:
        if any(figures.value(document, figure, program, document["base"]) is not None
               for program in document["programs"]):  # fmt: skip
            lines += table(document, figure)
    return "\n".join([*lines, *given_back(document), *calls(document)])


def difference(document, old, new, least=0.0005) -> str:
    """By function, what `new` costs more or less than `old`: instructions of each program.

    Functions whose share of the program moves by less than `least` are summed up.
    """
    lines = []
    for program, row in document["programs"].items():
        before, after = row["cells"].get(old), row["cells"].get(new)
        if not before or not after:
            continue
        whole = before["instructions"]["total"]
        moved = {
            name: (before["functions"].get(name, 0), after["functions"].get(name, 0))
            for name in {*before["functions"], *after["functions"]}
        }
        shown = {name: pair for name, pair in moved.items()
                 if abs(pair[1] - pair[0]) >= least * whole}  # fmt: skip
        rows = [
            [name, _number(a), _number(b), f"{b - a:+,d}", f"{(b - a) / whole * 100:+.3f} %"]
            for name, (a, b) in sorted(shown.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
        ]
        parts = ("total", "allocator", "copies", "loader", "rest")
        for part in parts:
            a, b = before["instructions"][part], after["instructions"][part]
            rows.append([f"= {part}", _number(a), _number(b), f"{b - a:+,d}",
                         f"{(b - a) / whole * 100:+.3f} %"])  # fmt: skip
        head = [program, old, new, "more", "of the program"]
        lines += [*_lines(head, rows), ""]
    return "\n".join(lines)
