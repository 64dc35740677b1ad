"""What a run has counted so far, cell by cell in `cells.jsonl`: an interrupted run goes on from there."""

import hashlib
import json
from pathlib import Path


def _digest(path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


class Kept:
    """Cells of a folder, which is made for the first one."""

    def __init__(self, folder: Path, program, machine: dict, lines: int):
        self.file, self.cells = folder / "cells.jsonl", {}
        self.fixed = [_digest(program), machine, lines]
        self.digests = {}
        if self.file.is_file():
            rows = [json.loads(line) for line in self.file.read_text().splitlines()]
            self.cells = {row["key"]: row["found"] for row in rows}

    def key(self, cell) -> str:
        """Another library, program or machine makes another cell."""
        path = cell.library.path
        if path not in self.digests:
            self.digests[path] = _digest(path)
        return json.dumps([cell.load, cell.library.name, cell.cpus, cell.seed, self.digests[path],
                           *self.fixed])  # fmt: skip

    def get(self, cell):
        return self.cells.get(self.key(cell))

    def put(self, cell, found) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(json.dumps({"key": self.key(cell), "found": found}) + "\n")
