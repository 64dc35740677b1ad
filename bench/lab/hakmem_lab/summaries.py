"""From samples to figures: medians per row and allocator, ratios, best peers."""

import math

from . import judge, stats, verdict
from .machine import kind_of
from .tables import SUBJECT

REFERENCE = "mimalloc"  # mimalloc v3
RIVALS = ("peer", "system")

# figure of a cell -> its name in launch's line
COSTS = {
    "wall_s": "wall_s",
    "user_s": "user_s",
    "sys_s": "sys_s",
    "minor_faults": "minor_faults",
    "major_faults": "major_faults",
    "voluntary": "voluntary_switches",
    "involuntary": "involuntary_switches",
}


def clean(samples, shortest_trip):
    """The samples of a row that can be compared: those of the commoner CPU distance."""
    kinds = {}
    for sample in samples:
        before = kind_of(sample.distance_before, shortest_trip)
        after = kind_of(sample.distance_after, shortest_trip)
        kinds.setdefault(before if before == after else "moved", []).append(sample)
    return max(kinds.values(), key=_worth, default=[])


def _worth(samples):
    """Of two kinds that which has more of the allocators, then more samples."""
    return len({sample.allocator for sample in samples}), len(samples)


def _printed(samples) -> dict:
    """Medians of the numbers that the program printed besides its speed."""
    numbers = {
        name for name, value in samples[0].extra.items() if isinstance(value, (int, float))
    }
    return {
        name: stats.median([s.extra[name] for s in samples])
        for name in numbers
        if all(isinstance(s.extra.get(name), (int, float)) for s in samples)
    }


def _cell(row, samples, floor_kb):
    """The figures of one allocator on one row."""
    speeds = [s.ops_per_s for s in samples]
    speed = stats.median(speeds)
    printed = _printed(samples)
    cell = {
        "ops_per_s": speed,
        "ns_per_op": 1e9 / speed,
        "seconds": stats.median([s.seconds for s in samples]),
        "spread": stats.spread(speeds),
        "samples": len(samples),
        "shortest_s": min(s.seconds for s in samples),
        "rss_kb": stats.median([s.rss_kb for s in samples]),
        "disturbed": sum(bool(s.disturbed) for s in samples),
    }
    for name, source in COSTS.items():
        cell[name] = stats.median([s.cost.get(source, 0) for s in samples])
    cell["printed"] = printed
    if row.memory in printed:
        cell[row.memory] = printed[row.memory]
    if "live_kb" in printed and floor_kb is not None:
        net = [s.rss_kb - floor_kb - s.extra["live_kb"] for s in samples]
        cell["net_rss_kb"] = stats.median(net)
    return cell


def ratio(ours, theirs, value=lambda s: s.ops_per_s):
    """stats.Ratio of two lists of samples, paired by the rounds that both have."""
    mine, others = {s.round: value(s) for s in ours}, {s.round: value(s) for s in theirs}
    common = [number for number in mine if number in others]
    if len(common) < 2:
        return stats.ratio(list(mine.values()), list(others.values()), paired=False)
    return stats.ratio([mine[n] for n in common], [others[n] for n in common])


def _beside(cell, ours, base):
    """The cell's speed and RSS as ratios to the base's, with intervals."""
    speed = ratio(ours, base)
    cell["speed"] = speed.as_dict()
    if all(s.rss_kb > 0 for s in (*ours, *base)):
        rss = ratio(ours, base, lambda s: s.rss_kb)
        cell["rss"] = rss.as_dict()


def base_of(allocators, base=None):
    """What ratios are to: the one asked for, else HAKMEM, else the first."""
    names = [a.name for a in allocators]
    if base in names:
        return base
    return SUBJECT if SUBJECT in names else names[0] if names else None


def _row(row, result, allocators, base):
    """One row's summary; `best` is the fastest allocator that is neither ours nor the limit."""
    by_name = {}
    kept = clean([s for s in result.samples if s.row == row.key], result.shortest_trip)
    for sample in kept:
        by_name.setdefault(sample.allocator, []).append(sample)
    cells = {
        a.name: _cell(row, by_name[a.name], result.floors_kb.get(a.name))
        for a in allocators
        if a.name in by_name
    }
    limit = next((a.name for a in allocators if a.kind == "limit" and a.name in cells), None)
    for name, cell in cells.items():
        if limit:
            cell["net_ns"] = cell["ns_per_op"] - cells[limit]["ns_per_op"]
        if base in cells and name != base:
            _beside(cell, by_name[name], by_name[base])
    lacking = {
        s.allocator: "CPUs moved" for s in result.samples
        if s.row == row.key and s.allocator not in cells
    }  # fmt: skip
    summary = {
        "lacking": lacking, "key": row.key, "group": row.group, "title": row.title, "kind": row.kind,
        "counts": result.counts.get(row.key, {}), "allocators": cells,
    }  # fmt: skip
    if row.memory:
        summary["memory"] = row.memory
    rivals = [a.name for a in allocators if a.kind in RIVALS and a.name in cells]
    if rivals:
        summary["best"] = max(rivals, key=lambda name: cells[name]["ops_per_s"])
    if rivals and SUBJECT in cells:
        for field, rival in (("ratio", summary["best"]), ("ratio_reference", REFERENCE)):
            if rival in cells:
                found = ratio(by_name[SUBJECT], by_name[rival])
                summary[field] = found.as_dict()
    return summary


def _dropped(rows, result):
    """Samples left out because the CPUs stood at another distance."""
    return sum(
        len(of) - len(clean(of, result.shortest_trip))
        for of in ([s for s in result.samples if s.row == row.key] for row in rows)
    )


def summarise(rows, allocators, result, base=None) -> dict:
    """The whole summary, as it goes into summary.json."""
    base = base_of(allocators, base)
    found = [_row(row, result, allocators, base) for row in rows]
    found = [s for s in found if s["allocators"]]
    return {
        "base": base,
        "rows": found,
        "verdict": verdict.lines(found, [a.name for a in allocators if a.kind in RIVALS]),
        "floors_kb": result.floors_kb,
        "net_geomean_ns": verdict.net_geomeans([s for s in found if s["group"] == "mixed"]),
        "failures": [
            {"row": row, "allocator": name, "reason": reason}
            for (row, name), reason in result.failures.items()
        ],
        "skipped": [{"row": row, "reason": reason} for row, reason in result.skipped.items()],
        "notes": list(result.notes),
        "disturbed_samples": sum(bool(s.disturbed) for s in result.samples),
        "total_samples": len(result.samples),
        "dropped_samples": _dropped(rows, result),
        "interrupted": result.interrupted,
    }


def without_false_intervals(summary) -> dict:
    """A summary of old, in which two rounds had an interval, as it would be written now."""
    changed = False
    for row in summary["rows"]:
        cells, base = row["allocators"], row["allocators"].get(summary.get("base"), {})
        few = {name for name, cell in cells.items()
               if min(cell.get("samples", math.inf), base.get("samples", math.inf)) < judge.LEAST_ROUNDS}
        found = [cells[name].get(figure) for name in few for figure in ("speed", "rss")]
        found += [row.get("ratio")] * (row.get("best") in few)
        for ratio in filter(None, found):
            changed = True
            ratio.update(low=math.nan, high=math.nan)
    if changed:
        rivals = [n for n, about in summary["allocators"].items() if about.get("kind") in RIVALS]
        summary["verdict"] = verdict.lines(summary["rows"], rivals)
    return summary
