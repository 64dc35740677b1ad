"""Counts that are taken in runs of their own, since they slow a program down."""

NAMES = ("syscalls", "instructions")


def chosen(options) -> list:
    return []
