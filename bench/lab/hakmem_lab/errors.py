"""The exceptions that the command line shows as one line."""


class LabError(Exception):
    """Something the user can act on: a missing file, a program that fails."""

    status = 1


class BadInput(LabError):
    """What the user typed cannot be right."""

    status = 2
