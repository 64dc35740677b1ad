"""Reads callgrind's output: costs per function and per instruction, without those of callees."""

import re
from collections import defaultdict
from dataclasses import dataclass, field

NAMED = re.compile(r"^(c?ob|c?fn|c?fl|c?fi|fe)=(?:\((\d+)\))?(?: ?(.*))?$")


@dataclass
class Costs:
    """Lists are in the order of `events`."""

    events: list = field(default_factory=list)
    total: list = field(default_factory=list)
    functions: dict = field(default_factory=dict)  # (object, function) -> costs
    instructions: dict = field(default_factory=dict)  # object -> {address: costs}

    def event(self, name, costs) -> int:
        place = self.events.index(name) if name in self.events else len(costs)
        return costs[place] if place < len(costs) else 0


def _add(into, costs):
    for place, value in enumerate(costs):
        into[place] += value


def _position(word, last):
    """A position is absolute, or relative to the one before."""
    if word == "*":
        return last
    if word[0] in "+-":
        return last + int(word, 0)
    return int(word, 0)


class _Reader:
    def __init__(self):
        self.found = Costs()
        self.names = defaultdict(dict)  # ob, fn -> number -> name
        self.now = {"ob": "", "fn": ""}
        self.address = 0
        self.positions = ["instr", "line"]
        self.inclusive = False

    def named(self, kind, number, text):
        space = kind[-2:]  # cob and ob share their numbers, as do cfn and fn
        if space not in ("ob", "fn"):
            return
        if number is not None and text:
            self.names[space][number] = text
        name = self.names[space].get(number, text)
        if kind in ("ob", "fn"):
            self.now[kind] = name

    def cost(self, line):
        words = line.split()
        self.address = _position(words[0], self.address)
        if self.inclusive:  # the line after calls=: what the callee cost
            self.inclusive = False
            return
        costs = [int(word) for word in words[len(self.positions):]]
        key = (self.now["ob"], self.now["fn"])
        room = len(self.found.events)
        _add(self.found.functions.setdefault(key, [0] * room), costs)
        if "instr" not in self.positions:
            return
        code = self.found.instructions.setdefault(self.now["ob"], {})
        _add(code.setdefault(self.address, [0] * room), costs)

    def line(self, line):
        if line.startswith("events:"):
            self.found.events = line.split()[1:]
        elif line.startswith("positions:"):
            self.positions = line.split()[1:]
        elif line.startswith(("totals:", "summary:")):
            self.found.total = [int(word) for word in line.split()[1:]]
        elif line.startswith("calls="):
            self.inclusive = True
        elif line[:1] in "0123456789+-*" and line:
            self.cost(line)
        elif match := NAMED.match(line):
            self.named(*match.groups())


def read(path) -> Costs:
    """All costs of one file; of single instructions, if it was written with --dump-instr=yes."""
    reader = _Reader()
    with open(path, errors="replace") as lines:
        for line in lines:
            reader.line(line.rstrip("\n"))
    return reader.found
