"""Reads a command line and does nothing: help, bad input, or what the command needs.

Status 100: it is well formed and needs the build; 101: it needs only the lab's Python.
"""

import sys

from .cli import whole
from .front import builds, read

BUILD, NO_BUILD = 100, 101

if __name__ == "__main__":
    whole(lambda: BUILD if builds(*read(sys.argv[1:])) else NO_BUILD)
