"""The page of `hakmem report`: what is in use, by call; drawn with plotly, which the page carries."""

import re
from collections import defaultdict
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from .read import size

TOP = 25  # sites in a table
SMALL = 0.001  # frames below this part of the whole are one
STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1200px;padding:1rem;color:#222}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ddd;vertical-align:top}
td{white-space:nowrap}td:last-child{white-space:normal}td:last-child,th:last-child{text-align:left;overflow-wrap:anywhere}.scroll{overflow-x:auto}
li{margin:.2rem 0;overflow-wrap:anywhere}small{color:#666}"""
LAYOUT = {"margin": {"l": 4, "r": 4, "t": 8, "b": 4}, "font": {"size": 13}}


def caller(stack) -> str:
    """The innermost function that is not of a library of containers."""
    own = [name for name in stack if not re.match(r"(std|__gnu_cxx)::|operator new|void\b", name)]
    return (own or stack or ["?"])[-1]


def _part(number, whole) -> str:
    return f"{100 * number / whole:.0f} %" if whole else "0 %"


def _tree(weighted) -> dict:
    """{stack up to a frame: bytes of all stacks that go on from there}."""
    sums = defaultdict(int)
    for stack, weight in weighted:
        for depth in range(len(stack) + 1):
            sums[tuple(stack[:depth])] += weight
    return sums


def flame(profile, value) -> go.Figure:
    """The tree of calls: a frame is as wide as the bytes below it. A click goes into a frame."""
    sums = _tree((profile.stack(site), value(site)) for site in profile.sites)
    whole = sums.get((), 0)
    kept = [stack for stack in sums if sums[stack] > 0 and sums[stack] >= whole * SMALL]
    ids = {stack: str(i) for i, stack in enumerate(kept)}
    figure = go.Figure(go.Icicle(
        ids=[ids[stack] for stack in kept],
        labels=[escape(stack[-1]) if stack else "all" for stack in kept],
        parents=[ids[stack[:-1]] if stack else "" for stack in kept],
        values=[sums[stack] for stack in kept], branchvalues="total", maxdepth=24,
        text=[size(sums[stack]) for stack in kept], tiling={"orientation": "v", "flip": "y"},
        hovertemplate="%{label}<br>%{text}, %{percentRoot:.1%}<extra></extra>",
        textinfo="label+text", marker={"colorscale": "YlOrRd"}))  # fmt: skip
    figure.update_layout(height=640, **LAYOUT)
    return figure


def classes(profile) -> go.Figure:
    """Bytes in use by size class: asked for, and lost by rounding."""
    asked, given = defaultdict(int), defaultdict(int)
    for site in profile.sites:
        asked[site.size] += site.live_bytes
        given[site.size] += site.given
    order = sorted((size_of for size_of in asked if given[size_of]),
                   key=lambda size_of: size_of or 1 << 40)
    names = [f"{size_of:,}" if size_of else "above 64 KiB" for size_of in order]
    figure = go.Figure([
        go.Bar(name="asked for", x=names, y=[asked[i] for i in order]),
        go.Bar(name="rounding", x=names, y=[max(given[i] - asked[i], 0) for i in order])])  # fmt: skip
    figure.update_layout(barmode="stack", height=340, legend={"orientation": "h", "y": 1.15},
                         xaxis={"type": "category", "title": "bytes of a block"},
                         yaxis={"title": "bytes in use"}, **LAYOUT)  # fmt: skip
    return figure


def _by_stack(profile) -> dict:
    """{stack: [bytes, objects] in use}."""
    sums = defaultdict(lambda: [0, 0])
    for site in profile.sites:
        entry = sums[tuple(profile.stack(site))]
        entry[0] += site.live_bytes
        entry[1] += site.live
    return sums


def _table(rows, whole) -> str:
    lines = ["<div class=scroll><table><tr><th>bytes</th><th>part</th><th>blocks</th>"
             "<th>call, the innermost first</th></tr>"]  # fmt: skip
    for stack, (count, objects) in rows:
        names = " ← ".join(escape(name) for name in stack[::-1][:8])
        lines.append(f"<tr><td>{size(count)}</td><td>{_part(count, whole)}</td>"
                     f"<td>{objects:,}</td><td>{names}</td></tr>")  # fmt: skip
    return "\n".join([*lines, "</table></div>"])


def warnings(profile) -> list:
    """What stands out, in words; the most bytes first."""
    live = sum(site.live_bytes for site in profile.sites)
    found = []
    for stack, (count, objects) in _by_stack(profile).items():
        if live and count >= live / 8:
            found.append((count, f"{_part(count, live)} of what is in use, {size(count)} in {objects:,}"
                          f" blocks, comes from one call: {escape(caller(stack))}"))
    lost = defaultdict(int)
    for site in profile.sites:
        lost[site.size] += max(site.given - site.live_bytes, 0)
    total = sum(lost.values())
    if live and total >= live / 20:
        worst = max(lost, key=lost.get)
        found.append((total, f"{size(total)} are lost by rounding to size classes, "
                      f"{size(lost[worst])} of them in blocks of {worst:,} bytes"))
    if profile.dropped:
        found.append((0, f"{profile.dropped:,} sampled blocks are missing: too many call stacks"))
    if profile.samples < 100:
        found.append((0, f"only {profile.samples} samples: run longer, or lower HAKMEM_PROF_RATE"))
    return [text for _, text in sorted(found, key=lambda pair: -pair[0])]


def _figure(figure) -> str:
    return figure.to_html(full_html=False, include_plotlyjs=False,
                          config={"responsive": True, "displayModeBar": False})  # fmt: skip


def _difference(old, new) -> str:
    before, after = _by_stack(old), _by_stack(new)
    rows = []
    for stack in before.keys() | after.keys():
        a, b = before.get(stack, (0, 0)), after.get(stack, (0, 0))
        rows.append((stack, (b[0] - a[0], b[1] - a[1])))
    rows.sort(key=lambda row: -abs(row[1][0]))
    whole = sum(count for count, _ in before.values())
    grown = sum(count for count, _ in after.values()) - whole
    return (f"<h2>What changed from {escape(old.path.name)}</h2><p>{size(grown)} more in use. "
            f"Parts are of the first profile.</p>{_table(rows[:TOP], whole)}")  # fmt: skip


def draw(profiles) -> str:
    """The page of one profile, or of the second of two and how it differs from the first."""
    profile = profiles[-1]
    live = sum(site.live_bytes for site in profile.sites)
    made = sum(site.all_bytes for site in profile.sites)
    rows = sorted(_by_stack(profile).items(), key=lambda row: -row[1][0])
    told = "".join(f"<li>{text}</li>" for text in warnings(profile)) or "<li>nothing stands out</li>"
    parts = [
        f"<h1>Heap of process {profile.process}</h1><p>{size(live)} in use, {size(made)} allocated"
        f" in all <small>({profile.samples:,} samples, one byte in {size(profile.rate)};"
        f" {escape(profile.path.name)})</small></p><ul>{told}</ul>",
        _difference(profiles[0], profile) if len(profiles) == 2 else "",
        "<h2>In use, by call</h2>", _figure(flame(profile, lambda site: site.live_bytes)),
        "<h2>Most in use</h2>", _table([row for row in rows if row[1][0]][:TOP], live),
        "<h2>In use, by size class</h2>", _figure(classes(profile)),
        "<h2>Allocated in all, by call</h2>", _figure(flame(profile, lambda site: site.all_bytes)),
    ]  # fmt: skip
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
            f"content='width=device-width,initial-scale=1'><title>Heap of process {profile.process}"
            f"</title><style>{STYLE}</style><script>{get_plotlyjs()}</script><body>"
            f"{''.join(parts)}</body></html>")  # fmt: skip
