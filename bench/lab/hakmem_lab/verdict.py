"""The verdict: what HAKMEM has to reach, group by group, and whether it did."""

import math

from . import judge, stats
from .tables import LIMIT, SUBJECT, SYSTEM

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


def _line(text, figure, ok):
    return {"text": text, "figure": figure, "ok": bool(ok)}


def _ahead(rows):
    """ "5 of 8. Behind: ...; .... Even: ...", and whether it is all of them."""
    found = judge.tally(rows)
    figure = f"{len(found[1])} of {len(rows)}"
    for word, sign in (("Behind", -1), ("Even", 0), ("No verdict", None)):
        titles = [row["title"] for row in found[sign]]
        figure += f". {word}: {'; '.join(titles)}" if titles else ""
    return figure, len(found[1]) == len(rows)


def net_geomeans(rows):
    """Per allocator that ran on all rows: geometric mean of its net cost in ns."""
    means = {}
    names = set.intersection(*(set(r["allocators"]) for r in rows)) if rows else set()
    names.discard(LIMIT)
    for name in names:
        costs = [r["allocators"][name].get("net_ns") for r in rows]
        if all(cost is not None for cost in costs):
            means[name] = stats.geomean([max(cost, LEAST_NET_NS) for cost in costs])
    return dict(sorted(means.items(), key=lambda item: item[1]))


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
        if math.isnan(mine - best):
            fat.append(f"{row['title']} (not known)")
        elif mine >= best:
            fat.append(f"{row['title']} ({mine:.0f} against {best:.0f} KB of {row['best']})")
    yield _line("threads: less net RSS than that peer", ", ".join(fat) or "all rows", not fat)


def _prodcons(rows, rivals):
    bounds = {
        "overhead": (OVERHEAD_WANTED, "(peak RSS - floor) / peak live"),
        "growth": (GROWTH_WANTED, "RSS at the end / after a tenth"),
    }
    for row in rows:
        cell = row["allocators"][SUBJECT]
        if row.get("memory") not in bounds or row["memory"] not in cell:
            yield from _any([row], rivals)
            continue
        bound, what = bounds[row["memory"]]
        figure = cell[row["memory"]]
        yield _line(f"{row['title']}: {what} <= {bound}", f"{figure:.3f}", figure <= bound)


def _memory_line(row, rivals):
    """A row whose figure is about memory: no more than the best peer's."""
    name, cells = row["memory"], row["allocators"]
    theirs = {n: cells[n][name] for n in rivals if n in cells and name in cells[n]}
    if name not in cells[SUBJECT] or not theirs:
        return None
    best, mine = min(theirs, key=theirs.get), cells[SUBJECT][name]
    figure = f"{mine:.3f} ({best} {theirs[best]:.3f})"
    return _line(f"{row['title']}: {name} <= the best peer's", figure, mine <= theirs[best])


def about_speed(row) -> bool:
    """Whether speed is what the row is about; else it is the figure that `memory` names."""
    return "memory" not in row


def _any(rows, rivals):
    """A group without a rule of its own: speed and peak RSS beside the best peer's."""
    group, fast = rows[0]["group"], [row for row in rows if about_speed(row)]
    if fast:
        figure, ok = _ahead(fast)
        yield _line(f"{group}: ahead of the best peer on every row", figure, ok)
        fat = []
        for row in fast:
            mine = row["allocators"][SUBJECT]["rss_kb"]
            best = row["allocators"][row["best"]]["rss_kb"]
            if mine > best:
                sizes = f"{mine / 1024:.1f}, {row['best']} {best / 1024:.1f} MB"
                fat.append(f"{row['title']} ({sizes})")
        yield _line(f"{group}: peak RSS <= that peer's", "; ".join(fat) or "all rows", not fat)
    yield from filter(None, (_memory_line(row, rivals) for row in rows if not about_speed(row)))


GROUP_VERDICTS = {"mixed": _mixed, "bulk": _bulk, "threads": _threads, "prodcons": _prodcons}


def lines(summaries, rivals) -> list:
    """The lines of all groups whose rows have both HAKMEM and a peer."""
    found = []
    for group in dict.fromkeys(s["group"] for s in summaries):
        judged = [s for s in summaries if s["group"] == group and "ratio" in s]
        judged = [s for s in judged if judge.sign(s["ratio"]) is not None]  # one round: no verdict
        if judged:
            found.extend(GROUP_VERDICTS.get(group, _any)(judged, rivals))
    return found
