"""Parses, transforms and prints again part of the Python standard library's own sources.

A real load of many small, long and short living objects: syntax trees. Prints one line
that depends on every result, so that two runs can be compared.
"""

import ast
import hashlib
import pathlib
import sysconfig

FILES = 130  # enough for about a second
LARGEST = 80_000  # bytes of a file


class Renamer(ast.NodeTransformer):
    """Gives every local name a numbered one, as a minifier would."""

    def __init__(self):
        self.names = {}

    def visit_Name(self, node):
        short = self.names.setdefault(node.id, f"n{len(self.names)}")
        return ast.copy_location(ast.Name(id=short, ctx=node.ctx), node)


def sources():
    """The first FILES readable modules, in a fixed order."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    taken = 0
    for path in sorted(folder.glob("*.py")):
        if taken < FILES and path.stat().st_size <= LARGEST:
            taken += 1
            yield path.read_text(encoding="utf-8", errors="replace")


def main():
    digest, nodes, kept = hashlib.sha256(), 0, []
    for text in sources():
        tree = Renamer().visit(ast.parse(text))
        nodes += sum(1 for _ in ast.walk(tree))
        printed = ast.unparse(tree)
        digest.update(printed.encode())
        kept.append(tree)  # trees stay, so that the heap grows as in a real indexer
    print(len(kept), nodes, digest.hexdigest())


main()
