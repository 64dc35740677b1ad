"""A comparison as it is published: one table, from which the README's table and the drawings are made.

Lines of "# run" (what it was made of), "# machine" and "# allocator" (name, title, version, kind), then
a line for each row: key, group, title, and for each allocator "operations/s resident-KB" or "-".
"""

from .. import judge
from ..errors import LabError
from . import figures

NAME = "table.tsv"
FORM = "# hakmem comparison 1"


def text(summary) -> str:
    """The table of a summary."""
    facts, names = summary["machine"], figures.names(summary)
    lines = [FORM, f"# run\t{judge.made_of(summary)}",
             f"# machine\t{facts['cpu']}, {facts['cpus']} CPUs, Linux {facts['kernel']}, {facts['libc']}"]  # fmt: skip
    for name in names:
        about = summary["allocators"][name]
        lines.append("\t".join(["# allocator", name, about["title"], about["version"] or "-", about["kind"]]))
    for row in summary["rows"]:
        cells = (row["allocators"].get(name) for name in names)
        lines.append("\t".join([row["key"], row["group"], row["title"], *(
            f"{cell['ops_per_s']:.6g} {cell['rss_kb']:.7g}" if cell else "-" for cell in cells)]))  # fmt: skip
    return "\n".join(lines) + "\n"


def read(path) -> dict:
    """A table as the part of a summary that figures.py and charts.py need, and the texts "run" and "machine"."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None
    if lines[:1] != [FORM]:
        raise LabError(f"{path} is not the table of a published comparison")
    found = {"allocators": {}, "rows": []}
    for words in (line.split("\t") for line in lines[1:]):
        if words[0] in ("# run", "# machine"):
            found[words[0][2:]] = words[1]
        elif words[0] == "# allocator":
            name, title, version, kind = words[1:]
            found["allocators"][name] = {"title": title, "version": version, "kind": kind}
        else:
            found["rows"].append(_row(words, found["allocators"]))
    return found


def _row(words, names) -> dict:
    key, group, title, *cells = words
    both = {name: cell.split() for name, cell in zip(names, cells) if cell != "-"}
    return {"key": key, "group": group, "title": title, "allocators": {
        name: {"ops_per_s": float(speed), "rss_kb": float(size)} for name, (speed, size) in both.items()
    }}  # fmt: skip
