"""A release library has no trace of what src/debug/ counts and times: no symbol, no name of a step. Nor has it
the function of the compiler's library that asks the machine what it can, in each process that starts.

    release_only.py LIBRARY SOURCE_FOLDER

The words that must be absent are taken from src/debug/ itself.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402


def words_of_debug(folder):
    """(functions and variables that src/debug/ declares, names of steps)."""
    names, steps = {"hak_os_now_ns"}, set()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        if name.endswith(".h"):
            names |= set(re.findall(r"\b(hak_\w+)[\[(]", text))
        steps |= set(re.findall(r"^TIMING\((\w+)", text, re.M))
    names = {name for name in names if not re.search(r"_(load|store|add)_relaxed$", name)}
    return names - {"hak_tier_of_class"}, steps


def main():
    library, source = sys.argv[1:]
    names, steps = words_of_debug(os.path.join(source, "debug"))
    if len(names) < 8 or len(steps) < 14 or "hak_timing_begin" not in names:
        harness.fail(f"the words of src/debug/ were not found: {names} {steps}")
    symbols = {line.split()[-1].split(".")[0] for line in
               harness.must_run(["nm", library]).out.decode().splitlines()}
    if "hakmem_malloc" not in symbols or "hak_shard_flush" not in symbols:
        harness.fail(f"{library} has no symbols to look at")
    names.add("__cpu_indicator_init")
    if names & symbols:
        harness.fail(f"the release build has {', '.join(sorted(names & symbols))}")
    with open(library, "rb") as file:
        content = file.read()
    if b"\0HAKMEM_TIMING\0" not in content:
        harness.fail("the option's name is not found, so no name would be")
    for step in steps:
        if b"\0" + step.encode() + b"\0" in content:
            harness.fail(f"the release build has the name of the step {step}")
    print(f"none of {len(names)} names and {len(steps)} steps")


main()
