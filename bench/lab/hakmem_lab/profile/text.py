"""The report's pages, from the profiles of the allocators."""

from ..suites.notes import table
from .shapes import COUNTERS, TIMED

WIDTH = 46  # of the chart's longest bar
PREDECESSOR = (
    "The predecessor's `perf_phase2_*` files were a second measurement after a change; "
    "`perf_hakmem_*` have it now, and each run has a folder of its own."
)
TOP = 12  # functions in the summary


def plain(value) -> str:
    """A number with as many digits as say something."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def _ratio(ours, theirs) -> str:
    return f"{ours / theirs:.2f}" if ours is not None and theirs else "-"


def stats(profile) -> str:
    """perf_<allocator>_stats.txt."""
    lines = [f"{profile.title}", f"counted by {profile.source}", ""]
    lines.append(f"{'counter':<34}{'in all':>18}{'per operation':>16}")
    for key, text in COUNTERS.items():
        if key in profile.totals:
            lines.append(f"{text:<34}{profile.totals[key]:>18,}{plain(profile.counters[key]):>16}")
    lines += ["", f"runs without a profiler (medians of {profile.timed['runs']}):"]
    lines += [f"{text:<34}{plain(profile.timed[key]):>18}" for key, text in TIMED.items()]
    return "\n".join(lines) + "\n"


def counter_rows(ours, theirs) -> list:
    """[counter, ours, theirs, ratio] of everything both have."""
    rows = []
    for key, text in COUNTERS.items():
        mine, other = ours.counters.get(key), theirs.counters.get(key)
        if mine is not None or other is not None:
            rows.append([f"{text} per operation", plain(mine), plain(other), _ratio(mine, other)])
    for key, text in TIMED.items():
        mine, other = ours.timed.get(key), theirs.timed.get(key)
        rows.append([text, plain(mine), plain(other), _ratio(mine, other)])
    return rows


def counters_table(ours, theirs) -> str:
    head = ["", ours.title, theirs.title, f"{ours.title} / {theirs.title}"]
    return table(head, counter_rows(ours, theirs))


def functions_table(profile, top=TOP) -> str:
    rows = [[f"{share:.1%}", f"`{name}`", where] for name, where, share in profile.functions[:top]]
    return table(["share", "function", "in"], rows)


def bars(ours, theirs) -> str:
    """perf_comparison_chart.txt: a pair of bars per figure."""
    lines = [f"{ours.title} (#) beside {theirs.title} (=)", f"counted by {ours.source}", ""]
    figures = [
        (text + " per operation", p.counters.get(key), q.counters.get(key))
        for key, text in COUNTERS.items()
        for p, q in [(ours, theirs)]
    ]
    figures += [(text, ours.timed[key], theirs.timed[key]) for key, text in TIMED.items()]
    for text, mine, other in figures:
        if mine is None or other is None or not max(mine, other):
            continue
        lines.append(f"{text}   ({_ratio(mine, other)} x)")
        for name, value, mark in ((ours.name, mine, "#"), (theirs.name, other, "=")):
            length = round(WIDTH * value / max(mine, other))
            lines.append(f"  {name:<8}|{mark * length:<{WIDTH}}| {plain(value)}")
        lines.append("")
    return "\n".join(lines)


def _allocators_share(profile, library) -> float:
    return sum(share for _, where, share in profile.functions if where.startswith(library))


def findings(ours, theirs) -> list:
    """The report in sentences, gains and losses alike."""
    found = []
    for key, text in COUNTERS.items():
        mine, other = ours.counters.get(key), theirs.counters.get(key)
        if mine is None or not other:
            continue
        word = "fewer" if mine < other else "more" if mine > other else "as many"
        found.append(
            f"{text} per operation: {plain(mine)} against {plain(other)}, "
            f"{_ratio(mine, other)} x ({word})"
        )
    mine, other = ours.timed["ops_per_s"], theirs.timed["ops_per_s"]
    word = "faster" if mine > other else "slower"
    found.append(
        f"without a profiler {plain(mine / 1e6)} against {plain(other / 1e6)} million operations "
        f"per second, {_ratio(mine, other)} x ({word}); one short comparison, no interval: "
        "`make bench` has those"
    )
    mine, other = ours.timed["rss_kb"], theirs.timed["rss_kb"]
    found.append(f"peak RSS {plain(mine)} against {plain(other)} KB, {_ratio(mine, other)} x")
    share = _allocators_share(ours, "libhakmem")
    if share:
        found.append(f"HAKMEM's own code is {share:.0%} of what the program executes")
    return found


def executive(ours, theirs, work, facts) -> str:
    """PERF_ANALYSIS_EXECUTIVE_SUMMARY.md."""
    lines = [f"- {text[0].upper()}{text[1:]}." for text in findings(ours, theirs)]
    hottest = [f"`{name}` ({share:.0%})" for name, _, share in ours.functions[:5]]
    return "\n\n".join([
        "# Profile of HAKMEM beside the system allocator",
        f"Workload: {work.title} (`{work.name}`). {facts['cpu']}, {facts['cpus']} CPUs, Linux "
        f"{facts['kernel']}.",
        f"Counted by {ours.source}.",
        "\n".join(lines),
        f"Most executed: {', '.join(hottest)}.",
        "Details: [perf_analysis_summary.md](perf_analysis_summary.md).",
    ]) + "\n"  # fmt: skip


def details(ours, theirs, work) -> str:
    """perf_analysis_summary.md."""
    parts = [f"# Counters and hot spots: {work.title}", counters_table(ours, theirs)]
    for profile in (ours, theirs):
        parts += [f"## Hot spots: {profile.title}", functions_table(profile)]
    names = [f"perf_{p.name}_{kind}.txt" for p in (ours, theirs)
             for kind in ("stats", "hotspots", "callgraph")]  # fmt: skip
    names += ["perf_annotate_malloc.txt", "perf_malloc_annotate.txt", "perf_free_annotate.txt",
              "perf_comparison_chart.txt"]  # fmt: skip
    parts += ["## Files", "\n".join(f"- [{name}]({name})" for name in names), PREDECESSOR]
    return "\n\n".join(parts) + "\n"
