"""What every command of the lab shares: one line on an error, a clean end on a signal, a mark."""

import os
import signal
import sys

from .errors import LabError
from .paths import ROOT

# In the environment of everything the lab starts, so that kill_bench finds it. Its value says
# which checkout the process belongs to.
MARK = "HAKMEM_BENCH_SUITE"
RUN = "HAKMEM_BENCH_RUN"  # beside the mark: the process that began the run


def _interrupt(_signal, _frame):
    raise KeyboardInterrupt


def mark() -> str:
    """The value of the mark, set now if the script that started us has not."""
    os.environ[RUN] = str(os.getpid())
    return os.environ.setdefault(MARK, str(ROOT))


def guarded(name, action) -> int:
    """action()'s status; LabError is one line and 1, an interrupt one line and 130."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # so that children are ended and results kept
    try:
        return action()
    except LabError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        raise  # whoever read is gone
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{name}: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return 130
