"""The file that `hakmem prof` and `hakmem report` write: whole or not at all, and what was there is kept."""

import contextlib
import os
import stat
from pathlib import Path

from ..errors import BadInput, LabError


def check(path: Path, sources) -> None:
    """BadInput where the file cannot be written, or is one of those that are read."""
    if path.is_dir():
        raise BadInput(f"-o {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise BadInput(f"-o {path}: there is no folder {path.parent}")
    special = path.exists() and not path.is_file()
    if not os.access(path if special else path.parent, os.W_OK):
        raise BadInput(f"-o {path}: no permission to write {'it' if special else f'in {path.parent}'}")
    for source in sources:
        if path.is_file() and os.path.exists(source) and os.path.samefile(path, source):
            raise BadInput(f"-o {path}: that is the file to read; name another one")


def _place(path: Path, data: bytes) -> Path | None:
    """Puts the data where `path` says; where another file was kept, or None."""
    if path.is_file() and path.read_bytes() == data:
        return None
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(data)
        kept = path.with_name(path.name + ".old") if path.is_file() and path.stat().st_size else None
        if kept:
            path.rename(kept)
        fresh.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    return kept


def write(path: Path, data: bytes) -> str:
    """Writes the file; what there is to say of it: "", or where the file is that was there."""
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # a pipe, a terminal
            path.write_bytes(data)
            return ""
        kept = _place(path, data)
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from None
    return f" (the file that was there is now {kept})" if kept else ""
