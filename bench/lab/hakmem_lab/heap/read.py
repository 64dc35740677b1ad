"""Reads the text form of a heap profile (docs/PROFILING.md), and names its frames."""

import re
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import LabError
from .perf_map import PerfMap, without_interpreter

SITE = re.compile(r"(\d+): (\d+) \[(\d+): (\d+)\] @((?: 0x[0-9a-f]+)*)$")
REST = re.compile(r"# size (\d+) remote (\d+) lifetime_ms (\d+) peak (\d+) peak_bytes (\d+)$")
HEAD = re.compile(r"# hakmem rate (\d+) process (\d+) samples (\d+) live (\d+) dropped (\d+)"
                  r" ms (\d+) peak_ms (\d+)$")  # fmt: skip
LINES = 3  # of a function, that are shown
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+\s*(.*)$")


def size(number) -> str:
    sign, number = ("-" if number < 0 else ""), abs(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            return f"{sign}{number:.0f} {unit}" if unit == "B" else f"{sign}{number:.1f} {unit}"
        number /= 1024


@dataclass
class Site:
    """What one call stack allocated in blocks of one size; sums are estimates."""

    live: int
    live_bytes: int
    all: int
    all_bytes: int
    frames: tuple  # return addresses, the innermost first
    size: int  # bytes of a block; 0: above 64 KiB, of many sizes
    remote: int
    lifetime_ms: int
    peak: int  # blocks in use when the process had most bytes in use
    peak_bytes: int

    @property
    def given(self):
        """Bytes in use, rounding to the size class included."""
        return self.live * self.size if self.size else self.live_bytes


@dataclass
class Mapping:
    """A part of a file with code in it. `base` is where the beginning of the file is mapped."""

    start: int
    end: int
    offset: int
    path: str
    base: int


@dataclass
class Frame:
    """A return address: [(function, file, line)], the innermost first where calls were inlined."""

    mapping: Mapping
    lines: list


@dataclass
class Profile:
    path: Path
    rate: int
    process: int
    samples: int
    dropped: int
    ms: int  # when it was written, from the start of the process
    peak_ms: int  # when most was in use
    sites: list
    mappings: list
    frames: dict = field(default_factory=dict)

    @property
    def program(self):
        """The name of the program: its code lies below that of libraries."""
        return next((Path(one.path).name for one in self.mappings if one.path.startswith("/")), "?")

    @property
    def live(self):
        """Bytes in use."""
        return sum(site.live_bytes for site in self.sites)

    @property
    def peak(self):
        """Bytes in use when most were."""
        return sum(site.peak_bytes for site in self.sites)

    @property
    def is_of_end(self):
        """Whether hardly anything is left of the peak: a program that ends frees what it has."""
        return self.live < self.peak / 20

    @property
    def has_python(self):
        """Whether functions of Python are named."""
        return any(frame.lines[0][0].startswith("py::") for frame in self.frames.values())

    @property
    def allocated(self):
        """Bytes in all."""
        return sum(site.all_bytes for site in self.sites)

    def calls(self):
        """{function: [(file, line)]} of its calls, for those that have lines; first those with most bytes in use at
        the peak."""
        sums = {}
        for site in self.sites:
            for address in site.frames:
                for name, file, line in self.frames[address].lines:
                    if line and file:
                        of_name, place = sums.setdefault(name, {}), (Path(file).name, line)
                        of_name[place] = of_name.get(place, 0) + site.peak_bytes
        return {name: sorted(places, key=lambda place: (-places[place], place)) for name, places in sums.items()}

    def places(self):
        """{function: "file:line"}; of a function with several calls "file:line, line"."""
        found = {}
        for name, calls in self.calls().items():
            file = calls[0][0]
            lines = [str(line) for of_file, line in calls if of_file == file]
            found[name] = f"{file}:{', '.join(lines[:LINES])}{', …' if len(lines) > LINES else ''}"
        return found

    def stack(self, site):
        """Names of functions, the outermost first."""
        names = []
        for address in site.frames:
            names += [line[0] for line in self.frames[address].lines]
        return without_interpreter(names[::-1])


def text_of(path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None


def read(path) -> Profile:
    profile = parse(path, text_of(path))
    name(profile)
    return profile


def parse(path, text) -> Profile:
    """The profile; its frames have no names yet."""
    lines = text.split("\n")
    head = HEAD.match(lines[1]) if len(lines) > 1 else None
    if not head or "MAPPED_LIBRARIES:" not in lines:
        raise LabError(f"{path} is no heap profile of HAKMEM, or its end is missing")
    end = lines.index("MAPPED_LIBRARIES:")
    rate, process, samples, _, dropped, ms, peak_ms = map(int, head.groups())
    sites = []
    for i in range(2, end - 1, 2):
        first, rest = SITE.match(lines[i]), REST.match(lines[i + 1])
        if not first or not rest:
            raise LabError(f"{path}, line {i + 1}: this is no site")
        frames = tuple(int(word, 16) for word in first.group(5).split())
        sites.append(Site(*map(int, first.groups()[:4]), frames, *map(int, rest.groups())))
    return Profile(Path(path), rate, process, samples, dropped, ms, peak_ms, sites, _mappings(lines[end + 1 :]))


def _mappings(lines) -> list:
    found, bases = [], {}
    for line in lines:
        match = MAPPING.match(line)
        if not match:
            continue
        start, end, offset = (int(match.group(i), 16) for i in (1, 2, 4))
        path = match.group(5)
        if offset == 0:
            bases[path] = start
        if "x" in match.group(3):
            found.append(Mapping(start, end, offset, path, bases.get(path, start)))
    return found


def _is_fixed(path) -> bool:
    """True for a program whose addresses are the linker's."""
    try:
        with open(path, "rb") as file:
            return struct.unpack("<H", file.read(18)[16:18])[0] == 2
    except (OSError, struct.error):
        return False


def build_id(path) -> str:
    """The build id of an ELF file in hex; "" when it has none."""
    try:
        done = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    match = re.search(r"Build ID: ([0-9a-f]+)", done.stdout)
    return match.group(1) if match else ""


def _ask(path, addresses) -> dict:
    """{address in the file: [(function, file, line)]} by addr2line; {} when it cannot tell."""
    words = ["addr2line", "-f", "-i", "-C", "-a", "-e", path]
    text = "".join(f"{address:#x}\n" for address in addresses)
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    except OSError:
        return {}
    answers, lines = {}, done.stdout.split("\n")
    while lines:
        line = lines.pop(0)
        if line.startswith("0x"):
            current = answers.setdefault(int(line, 16), [])
        elif line and lines:
            place = re.sub(r" \(discriminator \d+\)$", "", lines.pop(0))
            file, _, number = place.rpartition(":")
            current.append((line, file, int(number) if number.isdigit() else 0))
    return answers


def _symbols(path):
    """[(first address, end)] of the functions that the file names; None when nobody can tell."""
    try:
        done = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=False)
    except OSError:
        return None
    rows = (line.split() for line in done.stdout.splitlines())
    return [(int(row[1], 16), int(row[1], 16) + int(row[2], 0)) for row in rows
            if len(row) > 7 and row[3] in ("FUNC", "IFUNC") and row[6] != "UND"]  # fmt: skip


def _without_guesses(path, answers) -> dict:
    """Where there are no lines, addr2line tells the symbol before an address, however far away: what no symbol covers
    has no name."""
    guessed = {address for address, lines in answers.items() if not any(line for *_, line in lines)}
    covered = _symbols(path) if guessed else None
    if covered is None:
        return answers
    return {address: lines for address, lines in answers.items()
            if address not in guessed or any(start <= address < end for start, end in covered)}  # fmt: skip


def name(profile) -> None:
    """Fills profile.frames. A frame's place is in the instruction that calls, before the address."""
    wanted, made = {}, PerfMap(profile.process)
    for address in {address for site in profile.sites for address in site.frames}:
        mapping = next((m for m in profile.mappings if m.start <= address - 1 < m.end), None)
        line = made.line(address - 1) or (f"{address - 1:#x}", "", 0)
        profile.frames[address] = Frame(mapping, [line])
        if mapping and mapping.path.startswith("/"):
            wanted.setdefault(mapping.path, []).append((address, mapping))
    for path, group in wanted.items():
        fixed = _is_fixed(path)
        places = {address: address - 1 if fixed else address - 1 - mapping.base
                  for address, mapping in group}  # fmt: skip
        answers = _without_guesses(path, _ask(path, sorted(set(places.values()))))
        for address, place in places.items():
            lines = [line for line in answers.get(place, []) if line[0] != "??"]
            unknown = [(f"{Path(path).name}+{place:#x}", "", 0)]
            profile.frames[address].lines = lines or unknown
