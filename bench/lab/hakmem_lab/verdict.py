"""From samples to figures: medians per row, ratios to the best peer, the verdict lines."""

import math

from . import stats
from .machine import kind_of
from .tables import LIMIT, SUBJECT, SYSTEM

REFERENCE = "mimalloc"  # mimalloc v3

# What HAKMEM has to reach
GEOMEAN_WANTED = 1.12
NET_COST_WANTED = 0.8
BULK_GEOMEAN_WANTED = 0.97
BULK_ROW_WANTED = 0.85
OVERHEAD_WANTED = 1.5
GROWTH_WANTED = 1.02
RSS_SPARE_KB = 200
RSS_SPARE_FACTOR = 1.1
LEAST_NET_NS = 0.02  # a net cost below what can be measured counts as this


def clean(samples, shortest_trip):
    """The samples of a row that can be compared: those of the commoner CPU distance."""
    kinds = {}
    for sample in samples:
        before = kind_of(sample.distance_before, shortest_trip)
        after = kind_of(sample.distance_after, shortest_trip)
        kinds.setdefault(before if before == after else "moved", []).append(sample)
    return max(kinds.values(), key=len) if kinds else []


def _cell(samples, floor_kb):
    """The figures of one allocator on one row."""
    speeds = [s.ops_per_s for s in samples]
    speed = stats.median(speeds)
    cell = {
        "ops_per_s": speed,
        "ns_per_op": 1e9 / speed,
        "samples": len(samples),
        "shortest_s": min(s.seconds for s in samples),
        "rss_kb": stats.median([s.rss_kb for s in samples]),
        "minor_faults": stats.median([s.cost["minor_faults"] for s in samples]),
        "major_faults": stats.median([s.cost["major_faults"] for s in samples]),
        "disturbed": sum(bool(s.disturbed) for s in samples),
    }
    for name in ("overhead", "growth"):
        if name in samples[0].extra:
            cell[name] = stats.median([s.extra[name] for s in samples])
    if "live_kb" in samples[0].extra and floor_kb is not None:
        net = [s.rss_kb - floor_kb - s.extra["live_kb"] for s in samples]
        cell["net_rss_kb"] = stats.median(net)
    return cell


def _ratio(ours, theirs):
    """The ratio of two allocators' speeds on one row, paired when of the same rounds."""
    return stats.ratio(
        [s.ops_per_s for s in ours],
        [s.ops_per_s for s in theirs],
        paired=[s.round for s in ours] == [s.round for s in theirs],
    )


def _row(row, result, allocators):
    """One row's summary; `best` is the fastest allocator that is neither ours nor the limit."""
    by_name = {}
    kept = clean([s for s in result.samples if s.row == row.key], result.shortest_trip)
    for sample in kept:
        by_name.setdefault(sample.allocator, []).append(sample)
    cells = {
        a.name: _cell(by_name[a.name], result.floors_kb.get(a.name))
        for a in allocators
        if a.name in by_name
    }
    limit = next((a.name for a in allocators if a.kind == "limit" and a.name in cells), None)
    if limit:
        for cell in cells.values():
            cell["net_ns"] = cell["ns_per_op"] - cells[limit]["ns_per_op"]
    summary = {
        "key": row.key, "group": row.group, "title": row.title,
        "counts": result.counts.get(row.key, {}), "allocators": cells,
    }  # fmt: skip
    if row.memory:
        summary["memory"] = row.memory
    rivals = [a.name for a in allocators if a.kind in ("peer", "system") and a.name in cells]
    if rivals:
        summary["best"] = max(rivals, key=lambda name: cells[name]["ops_per_s"])
    if rivals and SUBJECT in cells:
        for field, rival in (("ratio", summary["best"]), ("ratio_reference", REFERENCE)):
            if rival in cells:
                found = _ratio(by_name[SUBJECT], by_name[rival])
                summary[field] = {"value": found.value, "low": found.low, "high": found.high}
                if field == "ratio":
                    summary["ahead"] = found.ahead
    return summary


def _line(text, figure, ok):
    return {"text": text, "figure": figure, "ok": bool(ok)}


def _ahead(rows):
    behind = [r["title"] for r in rows if not r["ahead"]]
    figure = f"{len(rows) - len(behind)} of {len(rows)}"
    return figure + (f"; behind: {', '.join(behind)}" if behind else ""), not behind


def net_geomeans(rows):
    """Per allocator that ran on all rows: geometric mean of its net cost in ns."""
    means = {}
    names = set.intersection(*(set(r["allocators"]) for r in rows)) if rows else set()
    names.discard(LIMIT)
    for name in names:
        costs = [r["allocators"][name].get("net_ns") for r in rows]
        if all(cost is not None for cost in costs):
            means[name] = stats.geomean([max(cost, LEAST_NET_NS) for cost in costs])
    return means


def _mixed(rows, rivals):
    figure, ok = _ahead(rows)
    yield _line("random mixed: ahead of the best peer on every row", figure, ok)
    references = [r["ratio_reference"]["value"] for r in rows if "ratio_reference" in r]
    if references and len(references) == len(rows):
        mean = stats.geomean(references)
        text = f"random mixed: geomean >= {GEOMEAN_WANTED} x mimalloc v3"
        yield _line(text, f"{mean:.3f}", mean >= GEOMEAN_WANTED)
    nets = net_geomeans(rows)
    others = {name: nets[name] for name in rivals if name in nets}
    if SUBJECT in nets and others:
        best = min(others, key=others.get)
        share = nets[SUBJECT] / others[best]
        yield _line(
            f"random mixed: geomean of net cost <= {NET_COST_WANTED} x the best peer's",
            f"{share:.3f} ({nets[SUBJECT]:.2f} ns; {best} {others[best]:.2f} ns)",
            share <= NET_COST_WANTED,
        )
    yield from _mixed_rss(rows, rivals)


def _mixed_rss(rows, rivals):
    fat, over = [], []
    for row in rows:
        sizes = {name: cell["rss_kb"] for name, cell in row["allocators"].items()}
        fast = [sizes[n] for n in rivals if n in sizes and n != SYSTEM]
        if fast and sizes[SUBJECT] > min(fast):
            fat.append(f"{row['title']} (+{sizes[SUBJECT] - min(fast):.0f} KB)")
        if SYSTEM in sizes:
            bound = max(sizes[SYSTEM] + RSS_SPARE_KB, sizes[SYSTEM] * RSS_SPARE_FACTOR)
            if sizes[SUBJECT] > bound:
                over.append(f"{row['title']} (+{sizes[SUBJECT] - bound:.0f} KB)")
    yield _line("random mixed: peak RSS <= every fast peer", ", ".join(fat) or "all rows", not fat)
    yield _line(
        "random mixed: peak RSS <= glibc + 200 KB or x 1.1", ", ".join(over) or "all rows", not over
    )


def _bulk(rows, rivals):
    ratios = {r["title"]: r["ratio"]["value"] for r in rows}
    mean, worst = stats.geomean(list(ratios.values())), min(ratios, key=ratios.get)
    text = f"bulk: geomean >= {BULK_GEOMEAN_WANTED} x the best peer of each row"
    yield _line(text, f"{mean:.3f}", mean >= BULK_GEOMEAN_WANTED)
    yield _line(
        f"bulk: no row below {BULK_ROW_WANTED}",
        f"{ratios[worst]:.3f} ({worst})",
        ratios[worst] >= BULK_ROW_WANTED,
    )


def _threads(rows, rivals):
    figure, ok = _ahead(rows)
    yield _line("threads: ahead of the best peer on every row", figure, ok)
    fat = []
    for row in rows:
        mine = row["allocators"][SUBJECT].get("net_rss_kb", math.nan)
        best = row["allocators"][row["best"]].get("net_rss_kb", math.nan)
        if not mine < best:
            fat.append(f"{row['title']} ({mine:.0f} against {best:.0f} KB of {row['best']})")
    yield _line("threads: less net RSS than that peer", ", ".join(fat) or "all rows", not fat)


def _prodcons(rows, rivals):
    bounds = {
        "overhead": (OVERHEAD_WANTED, "(peak RSS - floor) / peak live"),
        "growth": (GROWTH_WANTED, "RSS at the end / after a tenth"),
    }
    for row in rows:
        cell = row["allocators"][SUBJECT]
        bound, what = bounds[row["memory"]]
        figure = cell[row["memory"]]
        yield _line(f"{row['title']}: {what} <= {bound}", f"{figure:.3f}", figure <= bound)


GROUP_VERDICTS = {"mixed": _mixed, "bulk": _bulk, "threads": _threads, "prodcons": _prodcons}


def summarise(rows, allocators, result) -> dict:
    """The whole summary, as it goes into summary.json."""
    summaries = [_row(row, result, allocators) for row in rows]
    summaries = [s for s in summaries if s["allocators"]]
    rivals = [a.name for a in allocators if a.kind in ("peer", "system")]
    lines = []
    for group, verdict in GROUP_VERDICTS.items():
        judged = [s for s in summaries if s["group"] == group and "ratio" in s]
        if judged:
            lines.extend(verdict(judged, rivals))
    return {
        "rows": summaries,
        "verdict": lines,
        "floors_kb": result.floors_kb,
        "net_geomean_ns": net_geomeans([s for s in summaries if s["group"] == "mixed"]),
        "failures": [
            {"row": row, "allocator": name, "reason": reason}
            for (row, name), reason in result.failures.items()
        ],
        "dropped_samples": sum(
            len(of) - len(clean(of, result.shortest_trip))
            for of in ([s for s in result.samples if s.row == row.key] for row in rows)
        ),
        "interrupted": result.interrupted,
    }
