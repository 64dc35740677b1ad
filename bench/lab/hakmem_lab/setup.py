"""What a comparison was begun with: kept as setup.json, so that it can be resumed."""

import dataclasses
import hashlib
import json
from pathlib import Path

from .errors import LabError
from .settings import Settings

NAME = "setup.json"


def _fingerprint(library) -> str:
    """"" for the system allocator; a build of the same version is another library."""
    if library is None:
        return ""
    return hashlib.sha256(Path(library).read_bytes()).hexdigest()[:16]


def describe(rows, allocators) -> dict:
    """What must be the same when a comparison goes on; plain JSON values."""
    found = {
        "rows": [dataclasses.asdict(row) for row in rows],
        "allocators": {
            a.name: {
                "version": a.version,
                "environment": a.environment,
                "file": _fingerprint(a.library),
            }
            for a in allocators
        },
    }
    return json.loads(json.dumps(found))


def save(folder, described, settings, rounds, options) -> None:
    """`rounds` are those that the plan gave each row; `options` those of the command line."""
    document = {**described, "settings": dataclasses.asdict(settings), "rounds": rounds,
                "options": options}  # fmt: skip
    (folder / NAME).write_text(json.dumps(document, indent=1) + "\n")


def load(folder) -> dict:
    path = Path(folder) / NAME
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise LabError(f"cannot resume: {path}: {error.strerror}") from None
    except ValueError:
        raise LabError(f"cannot resume: {path} is not JSON") from None
    found["settings"] = Settings(**found["settings"])
    return found


def check_same(kept, described) -> None:
    """Refuses to mix figures of different rows, versions or builds."""
    there = {row["key"]: row for row in kept["rows"]}
    now = {row["key"]: row for row in described["rows"]}
    for key in [*there, *(k for k in now if k not in there)]:
        if there.get(key) != now.get(key):
            raise LabError(f"cannot resume: row {key} is not what it was")
    there, now = kept["allocators"], described["allocators"]
    for name in [*there, *(n for n in now if n not in there)]:
        old, new = there.get(name, {}), now.get(name, {})
        for what in ("version", "environment", "file"):
            if old.get(what) != new.get(what):
                shown = f"{old.get(what)} -> {new.get(what)}" if what == "version" else what
                raise LabError(f"cannot resume: allocator {name} is not what it was ({shown})")
