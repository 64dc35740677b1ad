"""The hakmem command of the wheel: `hakmem ...` and `python -m hakmem ...`."""

import os
import sys

from . import library


def main() -> None:
    """Becomes the command, with the words of this command line."""
    command = os.path.join(os.path.dirname(library()), "..", "bin", "hakmem")
    os.environ.setdefault("HAKMEM_BENCH_PYTHON", sys.executable)  # which has its Python parts' packages
    try:
        os.execv(command, ["hakmem", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"hakmem: cannot start {os.path.normpath(command)}: {error.strerror}")


if __name__ == "__main__":
    main()
