"""Asks a library which options it has, so that a knob it lacks is refused and never ignored.

A library with hakmem_option_get() answers itself, in a small process of its own. An older one is
started with the options set and its warnings are read.
"""

import errno
import json
import re
import sys

from ..errors import LabError
from ..paths import built

LIMIT = 20.0  # seconds for an answer
PREFIX = "HAKMEM_"

# Runs in the child that has the library preloaded; prints {name: errno} or null.
QUESTION = """
import ctypes, json, sys
own = ctypes.CDLL(None)
if not hasattr(own, "hakmem_option_get"):
    print("null")
    sys.exit()
ask = own.hakmem_option_get
ask.argtypes, ask.restype = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t], ctypes.c_int
room = ctypes.create_string_buffer(256)
print(json.dumps({name: ask(name.encode(), room, 256) for name in sys.argv[1:]}))
"""


# The same for values, in the order of the names.
VALUES = """
import ctypes, json, sys
own, room = ctypes.CDLL(None), ctypes.create_string_buffer(256)
ask = getattr(own, "hakmem_option_get", None)
print(json.dumps([room.value.decode() for name in sys.argv[1:]
                  if ask and ask(name.encode(), room, ctypes.c_size_t(256)) == 0]))
"""


def _asked(session, library, names):
    """{name: errno} from the library itself, None when it has no such function."""
    command = [sys.executable, "-I", "-c", QUESTION, *names]
    outcome = session.launcher.run(command, library, LIMIT)
    if not outcome.good:
        raise LabError(f"{library} cannot be asked for its options: {outcome.reason()}")
    return json.loads(outcome.stdout.decode().splitlines()[-1])


def values(session, library, names) -> list:
    """The values that the library has for these options, [] where it cannot be asked."""
    command = [sys.executable, "-I", "-c", VALUES, *names]
    outcome = session.launcher.run(command, library, LIMIT)
    return json.loads(outcome.stdout.decode().splitlines()[-1]) if outcome.good else []


def _warned(session, library, names):
    """{name: errno} from the warnings of a program that allocates nothing."""
    environment = {PREFIX + name: "1" for name in names}
    empty = built(session.build, "empty")
    outcome = session.launcher.run([empty], library, LIMIT, environment)
    said = outcome.stderr.decode(errors="replace")
    unknown = set(re.findall(rf"unknown option {PREFIX}(\w+)", said))
    return {name: errno.ENOENT if name in unknown else 0 for name in names}


def check_names(session, library, names) -> None:
    """Fails unless the library has every option of `names` (without HAKMEM_)."""
    names = sorted(names)
    answers = _asked(session, library, names) or _warned(session, library, names)
    missing = [PREFIX + name for name in names if answers[name] == errno.ENOENT]
    if missing:
        raise LabError(f"this libhakmem has no option {', '.join(missing)} ({library})")
    refused = [PREFIX + name for name in names if answers[name] == errno.ENOTSUP]
    if refused:
        raise LabError(f"this build of libhakmem does not support {', '.join(refused)} ({library})")
