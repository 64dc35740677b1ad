"""What a suite is made of. Data only: the work is in matrix.py."""

import re
from dataclasses import dataclass

from ..tables import SUBJECT

DEFAULT = "default"  # as a knob's value: the option is left alone


@dataclass(frozen=True)
class Axis:
    """A knob that an A/B varies: the library's option and where its values come from."""

    knob: str  # without HAKMEM_
    variable: str  # environment variable with the values; --name in lower case
    values: tuple
    about: str

    @property
    def flag(self) -> str:
        return "--" + self.variable.lower().replace("_", "-")


@dataclass(frozen=True)
class Entry:
    """One allocator with some options set: a column of the comparison."""

    allocator: str
    options: tuple = ()  # (NAME without HAKMEM_, value) pairs

    @property
    def name(self) -> str:
        return "+".join([self.allocator, *(f"{name}={value}" for name, value in self.options)])

    @property
    def short(self) -> str:
        """In a table that says whose options these are: "POOL_RING_CAP 8"."""
        return " ".join(f"{name} {value}" for name, value in self.options) or self.allocator

    @property
    def ours(self) -> bool:
        return re.split(r"[+:-]", self.allocator)[0] == SUBJECT

    @property
    def environment(self) -> dict:
        return {f"HAKMEM_{name}": value for name, value in self.options}


@dataclass(frozen=True)
class Suite:
    """A script. `rows(options)` and `entries(options)` give what is compared with what.

    `pairs(entries)` names the comparisons (A, B) that the report states in words.
    """

    name: str  # of scripts/<name>.sh
    about: str
    example: str
    rows: object
    entries: object
    pairs: object
    suffix: str  # of the folder docs/benchmarks/<stamp>_<suffix>
    axes: tuple = ()
    arguments: object = None  # adds options of its own to the parser
    rounds: int = 5
    runtime: str = "1"
    threads: str = "1,4"
    keep: bool = True  # in docs/benchmarks; else build/bench
    title: str = ""  # what is compared with what
    alloc: str = None  # default of --alloc where the suite has one
