"""`hakmem prof` and `hakmem report`."""

import re
from collections import Counter
from pathlib import Path

from ..errors import LabError
from . import output, pprof, sources
from .options import profile_for
from .read import Profile, name, read, size
from .sources import is_process


def prof(options) -> int:
    source = sources.ask(int(options.source)) if is_process(options.source) else Path(options.source)
    profile = read(source)
    out = options.out or profile_for(source)
    kept = output.write(out, pprof.packed(profile))
    index = " -sample_index=peak_space" if profile.is_of_end else ""
    print(f"{out}: {profile.samples} samples, {size(profile.live)} in use, {size(profile.peak)} at the peak{kept};"
          f" go tool pprof -top{index} {out}")  # fmt: skip
    return 0


def of_one_program(profiles) -> list:
    """The profiles of the program that allocated most: a shell, or what a program started, may have left some, too."""
    if len({profile.program for profile in profiles}) < 2:
        return profiles
    most = max(profiles, key=lambda profile: profile.allocated).program
    others = Counter(profile.program for profile in profiles if profile.program != most)
    named = ", ".join(f"{name} ({count})" for name, count in sorted(others.items()))
    print(f"profiles of several programs: drawn is {most}, which allocated most; left out: {named}")
    return [profile for profile in profiles if profile.program == most]


def _row(profile) -> str:
    """What the file's name is without the number of a profile on demand."""
    match = re.match(r"(.*)\.(\d+)$", str(profile.path))
    process = str(profile.process)
    is_number = match and (match.group(2) != process or process in Path(match.group(1)).name)
    return match.group(1) if is_number else str(profile.path)


def _written(profile) -> int:
    """When the file was written; 0 where that is not known."""
    try:
        return profile.path.stat().st_mtime_ns
    except OSError:
        return 0


def in_order(profiles) -> list:
    """As they were written: numbers of processes and of their profiles do not sort as text. Profiles of one process go by
    its clock; processes whose files are of one time stay as they were given."""
    order, last = {}, {}
    for profile in profiles:
        row = (profile.process, _row(profile))
        order.setdefault(row, len(order))
        last[row] = max(last.get(row, 0), _written(profile))
    rows = {row: (last[row], order[row]) for row in order}
    return sorted(profiles, key=lambda one: (rows[one.process, _row(one)], one.ms))


def report(options) -> int:
    try:
        from . import page
    except ImportError:
        raise LabError("the page needs plotly: python3 -m pip install plotly") from None
    found = []
    for source in sorted(options.sources, key=is_process):  # what a process says now is the newest
        if is_process(source):
            told, problems = sources.of_process(int(source))
            for problem in problems:
                print(f"left out: {problem}")
        else:
            told = options.looked_at.get(source) or sources.of_file(source)
        found += told
    profiles = [one for one in found if isinstance(one, Profile)]
    states = [one for one in found if not isinstance(one, Profile)]
    for profile in profiles:
        name(profile)
    drawn = page.draw(in_order(of_one_program(profiles)), states).encode("utf-8", errors="replace")
    kept = output.write(options.out, drawn)
    print(f"{options.out}: opens in a browser, from disk{kept}")
    return 0
