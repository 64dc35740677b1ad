"""The include ladder: a file of src/ includes only from its own folder or from lower layers.

    ladder.py SOURCE_FOLDER
    ladder.py --self-test

The layers stand in src/README.md on the line that begins "Ladder:", lowest first, as in
"Ladder: base < os < options,error < classes". Folders named together, with a comma, do not include
from each other.
"""

import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402


def read_ladder(readme):
    """Rank of each folder."""
    if not os.path.exists(readme):
        harness.fail(f"{readme} is missing")
    with open(readme, encoding="utf-8") as lines:
        ladders = [line for line in lines if line.startswith("Ladder:")]
    if len(ladders) != 1:
        harness.fail(f"{readme} has {len(ladders)} lines that begin \"Ladder:\", not 1")
    steps = ladders[0].removeprefix("Ladder:").strip().rstrip(".").split("<")
    return {folder.strip(" `"): rank for rank, step in enumerate(steps) for folder in
            step.split(",")}


def sources(folder):
    """All files that can include, as paths relative to the folder."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith((".c", ".h", ".def", ".inc", ".cpp", ".S")):
                yield os.path.relpath(os.path.join(place, name), folder)


def target_of(folder, source, included):
    """The file below the folder that an include names, or None for a public or system header."""
    for base in (os.path.dirname(source), ""):
        path = os.path.normpath(os.path.join(base, included))
        if os.path.isfile(os.path.join(folder, path)):
            return path
    return None


def violations(folder):
    """One line of text for each include that goes upward or sideways."""
    ladder = read_ladder(os.path.join(folder, "README.md"))
    wrong = []
    for source in sorted(sources(folder)):
        layer = source.split(os.sep)[0]
        if layer not in ladder:
            wrong.append(f"{source}: {layer} is not on the ladder")
            continue
        with open(os.path.join(folder, source), encoding="utf-8") as text:
            names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', text.read(), re.MULTILINE)
        for name in names:
            target = target_of(folder, source, name)
            upper = target.split(os.sep)[0] if target else layer
            if target is None and name != "hakmem.h":
                wrong.append(f"{source}: no file {name}")
            elif upper != layer and ladder.get(upper, len(ladder)) >= ladder[layer]:
                wrong.append(f"{source} includes {target}, which is not below {layer}")
    return wrong


def self_test():
    """The check finds each kind of violation in a small tree, and nothing in a right one."""
    files = {
        "README.md": ("text\nLadder: base < os < options, error < api\n", 0),
        "base/base.h": ('#include <stddef.h>\n', 0),
        "os/os.h": ('#include "base/base.h"\n', 0),
        "os/os.c": ('#include "os.h"\n#include "os/os.h"\n#include "hakmem.h"\n', 0),
        "options/options.c": ('#include "error/error.h"\n', 1),
        "error/error.h": ('# include "api/api.h"\n', 1),
        "api/api.h": ('#include "nowhere/nothing.h"\n', 1),
        "other/other.c": ("", 1),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, _) in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        found = violations(folder)
    if len(found) != sum(count for _, count in files.values()):
        harness.fail(f"the check itself is wrong: {found}")
    print("the check finds what it must")


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return
    wrong = violations(sys.argv[1])
    if wrong:
        harness.fail("; ".join(wrong))
    print("all includes go downward")


if __name__ == "__main__":
    main()
