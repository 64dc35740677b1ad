"""The one exception that the command line shows as one line."""


class LabError(Exception):
    """Something the user can act on: a missing file, a bad option, a program that fails."""
