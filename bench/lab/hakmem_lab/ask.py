"""Reads a command line and does nothing: help, bad input, or what the command needs.

Status 100: it is well formed and needs the build; 101: it needs only the lab's packages; 102: only Python.
"""

import sys

from .cli import whole
from .front import BUILD, PACKAGES_ONLY, PYTHON, needs, read

STATUS = {BUILD: 100, PACKAGES_ONLY: 101, PYTHON: 102}

if __name__ == "__main__":
    whole(lambda: STATUS[needs(*read(sys.argv[1:]))])
