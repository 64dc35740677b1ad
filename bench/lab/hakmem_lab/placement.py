"""Copies of programs and libraries, made anew for each round.

Which physical pages code lies in can make a loop several times slower, and a file keeps its pages
as long as it stays in memory. So samples of one file agree and may all be wrong; copies have other
pages in each round (decision 0001).
"""

import shutil
import tempfile
from pathlib import Path


class Copies:
    """Copies in a folder of `build`, where programs may run.

    A path that cannot be copied stands for itself. The copies of the last round keep their pages
    until those of this round have theirs.
    """

    def __init__(self, build):
        self.build = build
        self.number, self.made = None, {}
        self.folder = self.last = None

    def _begin(self, number):
        if self.last:
            self.last.cleanup()
        self.last = self.folder
        self.folder = tempfile.TemporaryDirectory(prefix="copies-", dir=self.build)
        self.number, self.made = number, {}

    def of(self, path, number):
        """The copy of a file for a round, 0: for the present one; None stays None."""
        source = Path(path).resolve() if path else None
        if source is None or not source.is_file():
            return path
        try:
            if self.folder is None or number not in (0, self.number):
                self._begin(number)
            if source not in self.made:
                place = Path(self.folder.name) / str(len(self.made))
                place.mkdir()
                self.made[source] = str(shutil.copy(source, place / Path(path).name))
        except OSError:
            return path
        return self.made[source]
