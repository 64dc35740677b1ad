"""Names for addresses: functions by addr2line, variables by nm."""

import bisect
import re
import subprocess
from pathlib import Path

# The frames of inlined functions come innermost first; these say nothing of an allocator.
PLUMBING = re.compile(r"^(std::|__atomic|operator|hak_(cas|load|store|add|exchange|or)_)")
LOCKING = re.compile(r"(?<![bB])[lL]ock|hak_lock_take_free|[Ff]lagLock")
UNLOCKING = re.compile(r"unlock|release|wake", re.IGNORECASE)
RELEASING = " (discriminator"


class Names:
    """Looks up places {"file", "offset"} of scale's output; each file is asked in bulk."""

    def __init__(self):
        self.frames, self.variables = {}, {}

    def ask(self, places) -> None:
        """Looks up code addresses, so that chain() knows them."""
        wanted = {}
        for place in places:
            key = place.get("file"), place.get("offset")
            if key[0] and key not in self.frames:
                wanted.setdefault(key[0], set()).add(key[1])
        for file, offsets in wanted.items():
            self._ask_file(file, sorted(offsets))

    def _ask_file(self, file, offsets) -> None:
        # An address is that of the instruction behind the call. -a prints each before its frames.
        text = "\n".join(hex(offset - 1) for offset in offsets)
        done = subprocess.run(["addr2line", "-a", "-f", "-i", "-C", "-e", file], input=text,
                              capture_output=True, text=True, check=False)  # fmt: skip
        lines, at = done.stdout.splitlines(), None
        position = 0
        while position < len(lines):
            if lines[position].startswith("0x"):
                at = file, int(lines[position], 16) + 1
                self.frames[at] = []
                position += 1
                continue
            where = lines[position + 1] if position + 1 < len(lines) else "??:0"
            self.frames[at].append((lines[position].split("(")[0], where.split(RELEASING)[0]))
            position += 2

    def chain(self, place) -> list:
        """[(function, file:line)], innermost first."""
        return self.frames.get((place.get("file"), place.get("offset")), [])

    def is_lock(self, place) -> bool:
        """Whether an atomic operation there takes a lock, by the name of its function."""
        for function, _ in self.chain(place):
            if PLUMBING.match(function):
                continue
            return bool(LOCKING.search(function)) and not UNLOCKING.search(function)
        return False

    def _useful(self, place) -> list:
        chain = self.chain(place)
        return [frame for frame in chain if not PLUMBING.match(frame[0])] or chain

    def code(self, place) -> str:
        """`function < caller  file:line` of a place in the code."""
        useful = self._useful(place)
        if not useful:
            return f"{Path(place.get('file', '?')).name}+{place.get('offset', 0):#x}"
        names = list(dict.fromkeys(function for function, _ in useful))[:3]
        file, _, line = useful[0][1].rpartition(":")
        return f"{' < '.join(names)}  {Path(file).name}:{line}"

    def function(self, place) -> str:
        """The function that a place in the code is of: the innermost one, inlined or not."""
        useful = self._useful(place)
        return useful[0][0] if useful else Path(place.get("file", "?")).name

    def _symbols(self, file) -> tuple:
        if file not in self.variables:
            done = subprocess.run(["nm", "-S", "-C", "--defined-only", file], capture_output=True,
                                  text=True, check=False)  # fmt: skip
            rows = []
            for line in done.stdout.splitlines():
                words = line.split(maxsplit=3)
                if len(words) == 4 and words[2] in "bBdDrR":
                    rows.append((int(words[0], 16), int(words[1], 16), words[3]))
            rows.sort()
            self.variables[file] = rows
        return self.variables[file]

    def data(self, place) -> str:
        """The variables in a line of 64 bytes, or where it is in memory."""
        if "file" not in place:
            return f"heap {place.get('address', 0):#x}"
        rows, low = self._symbols(place["file"]), place["offset"]
        high = low + 64
        end = bisect.bisect_left(rows, (high,))
        names = [
            name + (f"+{low - start:#x}" if start < low else "")
            for start, size, name in rows[max(0, end - 64) : end]
            if start + size > low
        ]
        return ", ".join(names) or f"{Path(place['file']).name}+{low:#x}"
