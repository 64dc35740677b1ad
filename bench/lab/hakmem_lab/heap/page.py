"""The page of `hakmem report`: what is in use, by call; drawn with plotly, which the page carries."""

from collections import defaultdict
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from .names import short
from .read import size
from .state import LEVELS, PARTS, UNIT, calls_of_class
from .words import by_stack, caller, part, seconds, warnings

TOP = 25  # sites in a table
LINES = 8  # calls in the drawing over time
POINTS = 500  # of a line in it
SMALL = 0.001  # frames below this part of the whole are left out
SHOWN = 0.02  # a frame of this part is drawn at once, however deep; others where there is room, or by a click
STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1200px;padding:1rem;color:#222}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ddd;vertical-align:top}
td{white-space:nowrap}td:last-child{white-space:normal}
td:last-child,th:last-child{text-align:left;overflow-wrap:anywhere;min-width:11rem}.scroll{overflow-x:auto}
ul{padding-left:1.3rem}li{margin:.2rem 0;overflow-wrap:anywhere}small{color:#666}
@media(max-width:600px){body{padding:.6rem}td,th{padding:.25rem .2rem;font-size:.78rem}
td:last-child,th:last-child{min-width:5.5rem}}"""
MEANING = {"live": "live blocks", "rounding": "class rounding", "sparse": "sparse pages",
           "caches": "thread caches", "dirty": "dirty", "metadata": "metadata", "other": "not HAKMEM's"}  # fmt: skip
LAYOUT = {"margin": {"l": 4, "r": 4, "t": 8, "b": 4}, "font": {"size": 13}}


def bytes_axis(title, most) -> dict:
    """An axis from 0 to `most` whose ticks are whole powers of two, named as all sizes of the page are."""
    step = 1 << max(int(most) // 4, 1).bit_length() - 1
    ticks = [i * step for i in range(int(most) // step + 2)]
    return {"title": title, "rangemode": "tozero", "automargin": True,
            "tickvals": ticks, "ticktext": [_short(tick) for tick in ticks]}  # fmt: skip


def _short(tick) -> str:
    return size(tick).replace(".0 ", " ")


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
    depth = max((len(stack) for stack in kept if sums[stack] >= whole * SHOWN), default=0)
    figure = go.Figure(go.Icicle(
        ids=[ids[stack] for stack in kept],
        labels=[escape(short(stack[-1])) if stack else "all" for stack in kept],
        parents=[ids[stack[:-1]] if stack else "" for stack in kept],
        values=[sums[stack] for stack in kept], branchvalues="total", maxdepth=depth + 1,
        text=[size(sums[stack]) for stack in kept], tiling={"orientation": "v", "flip": "y"},
        hovertemplate="%{label}<br>%{text}, %{percentRoot:.1%}<extra></extra>",
        texttemplate="%{label}  %{text}", marker={"colorscale": "YlOrRd"}))  # fmt: skip
    figure.update_layout(height=60 + 22 * depth, uniformtext={"minsize": 11, "mode": "hide"}, **LAYOUT)
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
    figure.update_layout(barmode="stack", height=340, legend={"orientation": "h", "y": 1.15, "traceorder": "normal"},
                         xaxis={"type": "category", "title": "bytes of a block"},
                         yaxis=bytes_axis("in use", max(given.values(), default=0)), **LAYOUT)  # fmt: skip
    return figure


def _table(rows, whole, places) -> str:
    lines = ["<div class=scroll><table><tr><th>bytes</th><th>part</th><th>blocks</th>"
             "<th>call, the innermost first</th></tr>"]  # fmt: skip
    for stack, (count, objects) in rows:
        shown = [f"{short(name)} ({places[name]})" if name in places else short(name) for name in stack[::-1][:8]]
        names = " ← ".join(map(escape, shown))
        lines.append(f"<tr><td>{size(count)}</td><td>{part(count, whole)}</td>"
                     f"<td>{objects:,}</td><td>{names}</td></tr>")  # fmt: skip
    return "\n".join([*lines, "</table></div>"])


def _figure(figure) -> str:
    return figure.to_html(full_html=False, include_plotlyjs=False,
                          config={"responsive": True, "displayModeBar": False})  # fmt: skip


def _difference(old, new) -> str:
    before, after = by_stack(old), by_stack(new)
    rows = []
    for stack in before.keys() | after.keys():
        a, b = before.get(stack, (0, 0)), after.get(stack, (0, 0))
        rows.append((stack, (b[0] - a[0], b[1] - a[1])))
    rows = sorted((row for row in rows if row[1][0]), key=lambda row: -abs(row[1][0]))
    whole = sum(count for count, _ in before.values())
    grown = sum(count for count, _ in after.values()) - whole
    return (f"<h2>What changed from {escape(old.path.name)}</h2><p>{size(grown)} more in use. "
            f"Parts are of the first profile.</p>{_table(rows[:TOP], whole, new.places())}")  # fmt: skip


def split(state) -> go.Figure:
    """The parts of resident memory, as `hakmem explain` has them."""
    names = [name for name in PARTS if state.resident[name]]
    figure = go.Figure(go.Bar(
        orientation="h", y=[MEANING[name] for name in names], x=[state.resident[name] for name in names],
        text=[f"{size(state.resident[name])}, {part(state.resident[name], state.rss)}" for name in names],
        textposition="auto"))  # fmt: skip
    figure.update_layout(height=60 + 36 * len(names), yaxis={"autorange": "reversed", "automargin": True},
                         xaxis={"visible": False}, **LAYOUT)  # fmt: skip
    return figure


def _over_time(names, times, values, title) -> go.Figure:
    """Areas on top of each other; `values` has a row for each name."""
    figure = go.Figure([go.Scatter(name=name, x=times, y=row, stackgroup="all", mode="lines")
                        for name, row in zip(names, values)])  # fmt: skip
    figure.update_layout(height=380, legend={"orientation": "h", "y": -0.2}, hovermode="x unified",
                         yaxis=bytes_axis("", max(map(sum, zip(*values)))),
                         xaxis={"title": title, "automargin": True}, **LAYOUT)  # fmt: skip
    return figure


def states_over_time(states) -> go.Figure:
    """Parts of resident memory."""
    states = states[: -1 : (len(states) - 1) // POINTS + 1] + states[-1:]
    return _over_time([MEANING[name] for name in PARTS], [state.time - states[0].time for state in states],
                      [[state.resident[name] for state in states] for name in PARTS], "seconds")  # fmt: skip


def profiles_over_time(profiles) -> go.Figure:
    """Bytes in use, by the calls that have most in one of the profiles."""
    by_call = []
    for profile in profiles:
        sums = defaultdict(int)
        for site in profile.sites:
            sums[short(caller(profile.stack(site)))] += site.live_bytes
        by_call.append(sums)
    most = {name: max(sums[name] for sums in by_call) for name in set().union(*by_call)}
    names = sorted(most, key=lambda name: (-most[name], name))[:LINES]
    rows = [[sums[name] for sums in by_call] for name in names]
    rows.append([sum(sums.values()) - sum(sums[name] for name in names) for sums in by_call])
    return _over_time([escape(name) for name in [*names, "other calls"]],
                      [profile.path.name for profile in profiles], rows, "profile")  # fmt: skip


def chart(state) -> go.Figure:
    """The map of superslabs: a row for each, a cell for each grain of 4 KiB."""
    shade = {digit: i - 1 for i, digit in enumerate(LEVELS)} | {".": None, "0": -1}
    rows = [[shade[digit]
             for _, grains in units for digit in grains] for _, units in state.rows]  # fmt: skip
    kinds = [[kind for kind, _ in units for _ in range(UNIT)] for _, units in state.rows]
    figure = go.Figure(go.Heatmap(
        z=rows, text=kinds, zmin=-1, zmax=15, xgap=0, ygap=1, hoverongaps=False,
        y=[f"{address:#x}" for address, _ in state.rows],
        hovertemplate="superslab %{y}<br>page %{x}<br>blocks: %{text}<br>%{z} sixteenths in use<extra></extra>",
        colorscale=[[0, "#9aa0a6"], [0.062, "#9aa0a6"], [0.063, "#b2182b"], [0.4, "#f4a582"],
                    [0.7, "#a6d96a"], [1, "#1a9641"]],
        colorbar={"tickvals": [-1, 1, 8, 15], "ticktext": ["unused", "1/16", "half", "full"], "thickness": 12}))  # fmt: skip
    figure.update_layout(height=min(120 + 8 * len(rows), 1400), xaxis={"title": "4 KiB each"},
                         yaxis={"showticklabels": False, "autorange": "reversed", "title": "superslabs"},
                         plot_bgcolor="#fff", **LAYOUT)  # fmt: skip
    return figure


def _pins(state, profile) -> str:
    lines = ["<div class=scroll><table><tr><th>block</th><th>pages</th><th>blocks in them</th><th>free in them</th>"
             "<th>part of resident</th><th>calls that have most blocks of this size in use</th></tr>"]  # fmt: skip
    for pin in state.pins[:TOP]:
        calls = calls_of_class(profile, pin.size)[:3] if profile else []
        named = "<br>".join(f"{part(share, 1)} {escape(short(caller(stack)))}" for stack, share in calls) or "?"
        lines.append(f"<tr><td>{pin.size:,} B</td><td>{pin.pages:,}</td><td>{pin.blocks:,}</td><td>{size(pin.free)}</td>"
                     f"<td>{part(pin.free, state.rss)}</td><td>{named}</td></tr>")  # fmt: skip
    return "\n".join([*lines, "</table></div>"])


def _of_memory(states, profile) -> list:
    """The sections that come from the JSON."""
    last = states[-1]
    parts = [f"<h2>Resident memory</h2><p>{size(last.rss)}</p>", _figure(split(last))]
    timed = [state for state in states if state.time is not None]
    if len(timed) > 1:
        parts += ["<h2>Resident memory over time</h2>", _figure(states_over_time(timed))]
    charted = next((state for state in reversed(states) if state.rows), None)
    if charted:
        every = f"; one superslab in {charted.stride} is shown" if charted.stride > 1 else ""
        parts += [f"<h2>What pins pages</h2><p>Pages of which at most a quarter is in use: the system"
                  f" gets them back only when their last block is freed{every}.</p>",
                  _pins(charted, profile), "<h2>Map of superslabs</h2><p>Red: few blocks pin the page."
                  " Green: full. Grey: resident and unused. White: not resident.</p>",
                  _figure(chart(charted))]  # fmt: skip
    return parts


def _most(profile, at_peak=False) -> list:
    rows = by_stack(profile, at_peak).items()
    return sorted((row for row in rows if row[1][0]), key=lambda row: -row[1][0])[:TOP]


def _of_peak(profile) -> list:
    """What was in use when most was."""
    return [f"<h2>In use at the peak, by call</h2><p>{size(profile.peak)}, {seconds(profile.peak_ms)} after the"
            f" start.</p>", _figure(flame(profile, lambda site: site.peak_bytes)),
            "<h2>Most in use at the peak</h2>",
            _table(_most(profile, True), profile.peak, profile.places())]  # fmt: skip


def _of_calls(profiles) -> list:
    """The sections that come from the profiles."""
    profile = profiles[-1]
    parts = _of_peak(profile) if profile.is_of_end else []
    if len(profiles) > 1:
        parts += [_difference(profiles[0], profile), "<h2>In use over time, by call</h2>",
                  _figure(profiles_over_time(profiles))]  # fmt: skip
    if profile.live:
        parts += ["<h2>In use, by call</h2>", _figure(flame(profile, lambda site: site.live_bytes)),
                  "<h2>Most in use</h2>", _table(_most(profile), profile.live, profile.places()),
                  "<h2>In use, by size class</h2>", _figure(classes(profile))]  # fmt: skip
    if profile.live < profile.peak and not profile.is_of_end:
        parts += _of_peak(profile)
    return [*parts, "<h2>Allocated in all, by call</h2>", _figure(flame(profile, lambda site: site.all_bytes))]


def _head(profile) -> str:
    return (f"<p>{size(profile.live)} in use, {size(profile.peak)} at the peak, {size(profile.allocated)}"
            f" allocated in all <small>({profile.samples:,} samples, one byte"
            f" in {size(profile.rate)}; {escape(profile.path.name)})</small></p>")  # fmt: skip


def draw(profiles, states=()) -> str:
    """The page of the last profile and the last state, of what changed before, and of how."""
    profile = profiles[-1] if profiles else None
    state = next((state for state in reversed(states) if state.rows), None)
    process = profile.process if profile else states[-1].process
    told = "".join(f"<li>{text}</li>" for text in warnings(profile, state)) or "<li>nothing stands out</li>"
    name = f"{escape(profile.program)}, process {process}" if profile else f"process {process}"
    parts = [f"<h1>Heap of {name}</h1>", _head(profile) if profile else "", f"<ul>{told}</ul>",
             *(_of_memory(states, profile) if states else []), *(_of_calls(profiles) if profiles else [])]  # fmt: skip
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
            f"content='width=device-width,initial-scale=1'><title>Heap of {name}"
            f"</title><style>{STYLE}</style><script>{get_plotlyjs()}</script><body>"
            f"{''.join(parts)}</body></html>")  # fmt: skip
