"""What stands out in a profile and in the memory of a process, in words."""

from collections import defaultdict
from html import escape

from .names import own, short
from .perf_map import up_to_python
from .read import size
from .state import GRAIN, calls_of_class


PYTHON_OWN = 512  # bytes of a block, at most, that Python does not ask malloc for


def caller(stack) -> str:
    """The innermost function that is not of a library of containers; of Python's own, where there are some."""
    return (own(up_to_python(stack)) or ("?",))[-1]


def origin(profile, stack) -> str:
    """That function, and the lines of its calls where they are known."""
    name = caller(stack)
    place, calls = profile.places().get(name), profile.calls().get(name, [])
    return f"one {'function' if len(calls) > 1 else 'call'}: {short(name)}{f' ({place})' if place else ''}"


def count_of(number, what="block") -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def estimate_of(number) -> str:
    """Blocks that samples stand for: two digits of the number tell something."""
    digits = max(len(str(number)) - 2, 0)
    about = round(number, -digits)
    return count_of(number) if number < 100 else f"about {count_of(about)}"


def part(number, whole) -> str:
    return f"{100 * number / whole:.0f} %" if whole else "0 %"


def by_stack(profile, at_peak=False) -> dict:
    """{stack up to the program's own call: [bytes, objects] in use}, now or at the peak."""
    sums = defaultdict(lambda: [0, 0])
    for site in profile.sites:
        entry = sums[own(profile.stack(site))]
        entry[0] += site.peak_bytes if at_peak else site.live_bytes
        entry[1] += site.peak if at_peak else site.live
    return sums


def seconds(ms) -> str:
    return f"{ms / 1000:,.1f} s"


def _pinned(state, profile) -> list:
    """[(bytes, words)] of classes whose few blocks keep many pages resident."""
    found = []
    for pin in state.pins:
        if pin.free < state.rss / 20:
            break
        text = (f"{part(pin.free, state.rss)} of resident memory, {size(pin.free)}, is pinned by"
                f" {count_of(pin.blocks)} of {pin.size:,} bytes, {part(pin.size, GRAIN)} of a page each")  # fmt: skip
        calls = calls_of_class(profile, pin.size) if profile else []
        if calls:
            text += (f"; {part(calls[0][1], 1)} of the blocks of this size in use come from"
                     f" {escape(origin(profile, calls[0][0]))}")  # fmt: skip
        found.append((pin.free, text))
    return found


def warnings(profile, state=None) -> list:
    """What stands out, in words: first what is wasted, the most bytes first, then what is much."""
    wasted = _pinned(state, profile) if state else []
    return [text for _, text in wasted] + (_of_profile(profile) if profile else [])


def _of_calls(profile, at_peak) -> list:
    """[(bytes, words)] of calls with much in use, now or at the peak."""
    whole = profile.peak if at_peak else profile.live
    what, comes = ("was in use at the peak", "came") if at_peak else ("is in use", "comes")
    sums = defaultdict(lambda: [0, 0])
    for stack, (count, objects) in by_stack(profile, at_peak).items():
        entry = sums[up_to_python(stack)]
        entry[0] += count
        entry[1] += objects
    return [(count, f"{part(count, whole)} of what {what}, {size(count)} in {estimate_of(objects)},"
             f" {comes} from {escape(origin(profile, stack))}")
            for stack, (count, objects) in sums.items()
            if whole and count >= whole / 8]  # fmt: skip


def _in_order(found) -> list:
    return [text for _, text in sorted(found, key=lambda pair: -pair[0])]


def _of_profile(profile) -> list:
    """What is in use, then the peak where that was much more, then what to know about the figures."""
    at_peak = _of_calls(profile, True) if profile.live < profile.peak / 2 else []
    return _in_order(_of_use(profile)) + _in_order(at_peak) + _notes(profile)


def _of_use(profile) -> list:
    if profile.is_of_end:
        return []
    found = _of_calls(profile, False)
    lost = defaultdict(int)
    for site in profile.sites:
        lost[site.size] += max(site.given - site.live_bytes, 0)
    total = sum(lost.values())
    if total and total >= profile.live / 20:
        worst = max(lost, key=lost.get)
        found.append((total, f"{size(total)} are lost by rounding to size classes, "
                      f"{size(lost[worst])} of them in blocks of {worst:,} bytes"))
    return found


def _notes(profile) -> list:
    found, made = [], profile.allocated
    if profile.is_of_end:
        found.append(f"little is in use now, {size(profile.live)}, as at the end of a program that frees what it has:"
                     f" the peak, {size(profile.peak)} {seconds(profile.peak_ms)} after the start, tells more")  # fmt: skip
    small = sum(site.all_bytes for site in profile.sites if 0 < site.size <= PYTHON_OWN)
    if profile.program.startswith("python") and small < made / 20:
        found.append("Python keeps its small objects in memory of its own, of which HAKMEM knows nothing:"
                     " PYTHONMALLOC=malloc shows them")  # fmt: skip
    if profile.program.startswith("python") and not profile.has_python:
        found.append("the calls are those of Python itself: with PYTHONPERFSUPPORT=1, Python 3.12 and later tell"
                     " their functions")  # fmt: skip
    if profile.dropped:
        found.append(f"{profile.dropped:,} sampled blocks are missing: too many call stacks")
    if profile.samples < 100:
        found.append(f"only {profile.samples} samples: run longer, or lower HAKMEM_PROF_RATE")
    return found
