"""Tables on the terminal, and the HTML page."""

import jinja2
from rich.table import Table

from ..html import TEMPLATES
from . import charts
from .figures import FIGURES

COLUMNS = ("transfers", "allocator", "far", "false_sharing", "locks", "process_locks", "failed",
           "wait_ns", "bound_mops")  # fmt: skip
HEADS = {"false_sharing": "false", "process_locks": "process's", "wait_ns": "wait ns",
         "bound_mops": "bound Mop/s"}
BOUND = "a bound: no run can be faster, a real one is slower"


def digits(value) -> str:
    if value == 0:
        return "0"
    if value < 0.001:
        return f"{value:.1e}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def table(document, load) -> Table:
    shown = Table(title=f"{load['name']}: {load['about']}", title_justify="left", box=None,
                  pad_edge=False, header_style="bold")  # fmt: skip
    shown.add_column("allocator")
    shown.add_column("CPUs", justify="right")
    for name in COLUMNS:
        shown.add_column(HEADS.get(name, name), justify="right")
    for row in load["rows"]:
        cells = row["figures"]
        shown.add_row(
            document["allocators"][row["allocator"]]["title"], str(row["cpus"]),
            *(digits(cells[name]["median"]) if name in cells else "-" for name in COLUMNS),
        )  # fmt: skip
    return shown


def settings_line(document) -> str:
    m = document["machine"]
    return (
        f"quantum {m['quantum-ns']} ns, {document['seeds']} seeds (medians), {m['warm']} operations "
        f"of each thread to warm up and {m['ops']} measured; cache {m['cache-kib']} KiB, "
        f"{m['ways']} ways; nodes of {m['node']} CPUs; near {m['near-ns']} ns, far {m['far-ns']} ns, "
        f"fetch {m['fetch-ns']} ns, access {m['hit-ns']} ns; {m['seats']} threads on each CPU of server"
    )


def print_all(console, document) -> None:
    console.print(settings_line(document), style="dim")
    console.print(f"Figures are per operation; the last column is {BOUND}.", style="dim")
    for load in document["loads"]:
        console.print("", table(document, load), f"an operation: {load['operation']}", sep="\n")
        for top in load["tops"]:
            name = document["allocators"][top["allocator"]]["title"]
            console.print(f"\n{name}, {top['cpus']} CPUs, most moved lines:", style="bold")
            for line in top["lines"]:
                console.print(
                    f"  {digits(line['transfers']):>8} (false {digits(line['false_sharing'])})  "
                    f"{line['line'][:100]}\n{'':12}{'; '.join(line['code'][:2])}",
                    soft_wrap=True, markup=False,
                )  # fmt: skip
            most = "; ".join(f"{row['function']} {digits(row['accesses'])}"
                             for row in top["functions"])  # fmt: skip
            console.print(f"  accesses: {most}", soft_wrap=True, markup=False)
            most = "; ".join(f"{row['line']} {digits(row['locks'])}"
                             for row in top.get("process_locks", ()))  # fmt: skip
            console.print(f"  process's locks: {most or 'none'}", soft_wrap=True, markup=False)
    for note in document["notes"]:
        console.print(note, style="yellow")


def page(document) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters.update(digits=digits)
    order = {name: about["title"] for name, about in document["allocators"].items()}
    drawn = {}
    for load in document["loads"]:
        cells = {(row["allocator"], row["cpus"]): row["figures"] for row in load["rows"]}
        drawn[load["name"]] = charts.draw(cells, order, document["cpus"], load["name"])
    return environment.get_template("scale.html.j2").render(
        document=document, order=order, charts=drawn, columns=COLUMNS, heads=HEADS,
        figures=FIGURES, settings=settings_line(document), bound=BOUND,
    )  # fmt: skip
