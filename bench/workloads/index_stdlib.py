"""Builds a search index of the Python standard library's sources and asks it.

A real load of strings, dictionaries, lists and JSON. Prints one line that depends on
every result, so that two runs can be compared.
"""

import collections
import hashlib
import json
import pathlib
import re
import sysconfig

FILES = 150
WORD = re.compile(r"[A-Za-z_]\w+")


def documents():
    """(name, text) of the first FILES modules, in a fixed order."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(folder.glob("*.py"))[:FILES]:
        yield path.name, path.read_text(encoding="utf-8", errors="replace")


def build():
    """word -> list of (file, line, column)"""
    index = collections.defaultdict(list)
    for name, text in documents():
        for number, line in enumerate(text.splitlines(), 1):
            for match in WORD.finditer(line):
                index[match.group()].append((name, number, match.start()))
    return index


def pairs(index):
    """How often two of the commoner words stand in one file."""
    common = sorted(index, key=lambda word: (-len(index[word]), word))[:150]
    files = {word: {place[0] for place in index[word]} for word in common}
    return {f"{a} {b}": len(files[a] & files[b]) for a in common for b in common if a < b}


def main():
    index = build()
    text = json.dumps({"index": index, "pairs": pairs(index)}, sort_keys=True)
    again = json.loads(text)
    places = sum(len(found) for found in again["index"].values())
    print(len(again["index"]), places, hashlib.sha256(text.encode()).hexdigest())


main()
