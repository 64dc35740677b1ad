"""The documents: what they link to and name is there, their blocks of commands have a command in each line, and
decision records keep their form; and the first line of each source names its file.

    documents.py ROOT
    documents.py --self-test

Looks at every *.md outside build folders. A relative link, and a path of this repository in
backquotes (`src/...`), must exist, and so must a function in backquotes (`hak_...`); CHANGELOG.md and records
may name what is gone. Each line in a block ```sh begins with a command that COMMANDS lists, or a path, and
`hakmem` has a word that the command knows behind it. The manual page names each function and each error of the
header. docs/BUILDING.md has each target that `make help` shows, and each option of the build. Each record in docs/decisions is linked from the README.md there, and no cell of a
table in it is longer than CELL_MAX characters. A file of src/ begins with its name.
"""

import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

CELL_MAX = 200
DECISIONS = os.path.join("docs", "decisions")
LINK = re.compile(r"\]\(([^()\s]+)\)")
FUNCTION = re.compile(r"`(hak_\w+)(?:\(\))?`")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
SETTING = re.compile(r"\w+=(\"[^\"]*\"|'[^']*'|\$\([^)]*\)|\S*)\s+")
COMMANDS = set("bpftrace cmake gcc gdb git go hakmem make mkdir perf pip prog redis-benchmark redis-cli redis-server "
               "set sleep until wait xdg-open $EDITOR (gdb)".split())
PATH = re.compile(r"`((?:bench|cmake|docs|include|scripts|src|tests|tools)/[\w./-]+)`")


def documents(root):
    """Paths of all documents, relative to the root."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f[0] != "." and not f.startswith("build"))
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def links_of(text):
    """Relative links, without the part behind #."""
    found = (link.partition("#")[0] for link in LINK.findall(text))
    return [link for link in found if link and not re.match(r"\w+:", link)]


def dead_references(root, name):
    text = read(root, name)
    folder = os.path.join(root, os.path.dirname(name))
    for link in links_of(text):
        if not os.path.exists(os.path.join(folder, link)):
            yield f"{name}: the link {link} leads nowhere"
    for path in PATH.findall(text) if name != "CHANGELOG.md" else []:
        if not os.path.exists(os.path.join(root, path)):
            yield f"{name}: there is no {path}"


def sources(root):
    """Paths of the sources, relative to the root."""
    for folder, _, files in os.walk(os.path.join(root, "src")):
        for name in sorted(files):
            if name.endswith((".c", ".h", ".def")):
                yield os.path.relpath(os.path.join(folder, name), root)


def strange_heads(root, name):
    if not read(root, name).startswith(f"/* {os.path.basename(name)}: "):
        yield f"{name} does not begin with its name"


def commands_of(text):
    """The commands in blocks of a document, a list of words each, without the settings in front."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.strip()
            if line and not re.match(r"# |[A-Z_]+=\S+( +#|$)", line):
                while SETTING.match(line):
                    line = SETTING.sub("", line, count=1)
                yield line.split()


def strange_commands(root, name, subcommands):
    for words in commands_of(read(root, name)):
        if words[0] not in COMMANDS and "/" not in words[0]:
            yield f"{name}: {words[0]} is no command: {' '.join(words)}"
        elif os.path.basename(words[0]) == "hakmem" and words[1] not in subcommands:
            yield f"{name}: hakmem has no command {words[1]}"


def unknown_functions(root, name, words):
    for function in FUNCTION.findall(read(root, name)):
        if function not in words:
            yield f"{name}: there is no function {function}"


def not_in_manual(root):
    """Functions and error numbers of the header that the manual page does not have."""
    header, manual = (read(root, os.path.join(*path)) for path in (("include", "hakmem.h"), ("docs", "man", "hakmem.3")))
    known = set(re.findall(r"\w+", manual))
    for word in sorted(set(re.findall(r"\bhakmem_\w+(?=\()|\bE[A-Z]{4,}\b", header)) - known):
        yield f"docs/man/hakmem.3 does not have {word}"


def not_in_building(root):
    """Targets that `make help` shows, and options of the build, that docs/BUILDING.md does not have."""
    page = read(root, os.path.join("docs", "BUILDING.md"))
    for target in re.findall(r"^([a-z-]+):.*## ", read(root, "Makefile"), re.MULTILINE):
        if target != "all" and not re.search(rf"`make {target}\b", page):
            yield f"docs/BUILDING.md does not have make {target}"
    for folder in ("", "bench", "cmake", "src", "tools"):
        for name in sorted(os.listdir(os.path.join(root, folder))):
            text = read(root, os.path.join(folder, name)) if re.search(r"^CMakeLists|\.cmake$", name) else ""
            for option in re.findall(r"\b(?:option\((HAKMEM_\w+)|set\((HAKMEM_\w+) (?:\"[^\"]*\" )?CACHE)", text):
                if f"`{option[0] or option[1]}`" not in page:
                    yield f"docs/BUILDING.md does not have {option[0] or option[1]}"


def long_cells(root, name):
    for number, line in enumerate(read(root, name).splitlines(), 1):
        for cell in line.strip("|").split("|") if line.startswith("|") else []:
            if len(cell.strip()) > CELL_MAX:
                yield f"{name}:{number}: a cell of {len(cell.strip())} characters, at most {CELL_MAX}"


def unlisted_records(root, records):
    index = os.path.join(DECISIONS, "README.md")
    listed = links_of(read(root, index))
    for name in records:
        if name != index and os.path.basename(name) not in listed:
            yield f"{index} does not list {os.path.basename(name)}"


def check(root):
    """Everything that is wrong, a line each."""
    names = list(documents(root))
    records = [name for name in names if os.path.dirname(name) == DECISIONS]
    found = [line for name in names for line in dead_references(root, name)]
    found += [line for name in records for line in long_cells(root, name)]
    found += [line for name in sources(root) for line in strange_heads(root, name)]
    subcommands = re.findall(r'\{"(\w+)", command_\1', read(root, os.path.join("tools", "hakmem", "main.c")))
    found += [line for name in names for line in strange_commands(root, name, subcommands)]
    found += not_in_manual(root)
    found += not_in_building(root)
    words = {word for name in sources(root) for word in re.findall(r"\w+", read(root, name))}
    found += [line for name in names if name != "CHANGELOG.md" and name not in records
              for line in unknown_functions(root, name, words)]
    if not records:
        return found + [f"there is nothing in {DECISIONS}"]
    return found + list(unlisted_records(root, records))


def self_test():
    """Each kind of error in a tree of its own, made from one without."""
    good = {
        "README.md": "[index](docs/decisions/README.md#top) [out](https://host/x) `src/a.c` `hak_a()`\n",
        "CHANGELOG.md": "`src/gone.c` `hak_gone`\n",
        "docs/decisions/README.md": "| [why?](0001-a.md) | because |\n",
        "docs/decisions/0001-a.md": "[up](../../README.md)\n\n| " + "x" * CELL_MAX + " |\n",
        "src/a.c": "/* a.c: a function. */\nvoid hak_a(void) {}\n",
        "tools/hakmem/main.c": '{"run", command_run, false}',
        "docs/BUILDING.md": "`make x [A=b]` `HAKMEM_A` `HAKMEM_B`",
        "Makefile": "all: x ## All\nx: ## That\ny:\n",
        "CMakeLists.txt": "option(HAKMEM_A \"a\" ON)\nset(HAKMEM_OWN 1)\n",
        "cmake/x.cmake": "set(HAKMEM_B \"\" CACHE STRING \"b\")\n",
        "bench/x": "",
        "include/hakmem.h": "int hakmem_a(void); /* EPERM */",
        "docs/man/hakmem.3": "hakmem_a ENOENT EPERM",
        "docs/use.md": "```sh\nA=1 B=\"a b\" hakmem run -- \\\n  prog\n# so\nHAKMEM_A=1   # is it\n./hakmem run\n```\nalso\n",
        "build/x/README.md": "[no](gone.md)\n",
    }
    cases = [
        ({}, None),
        ({"README.md": "[index](gone.md)\n"}, "README.md: the link gone.md leads nowhere"),
        ({"CHANGELOG.md": "[x](gone.md#a)\n"}, "CHANGELOG.md: the link gone.md leads nowhere"),
        ({"README.md": "see `src/gone.c`\n"}, "README.md: there is no src/gone.c"),
        ({"README.md": "see `hak_gone`\n"}, "README.md: there is no function hak_gone"),
        ({"src/b.h": "/* a.h: moved. */\n"}, "src/b.h does not begin with its name"),
        ({"docs/use.md": "```sh\nhakmem run -- prog #\nalso this\n```\n"}, "docs/use.md: also is no command: also this"),
        ({"Makefile": "y: x ## That\n"}, "docs/BUILDING.md does not have make y"),
        ({"tools/CMakeLists.txt": "set(HAKMEM_C \"c\" CACHE PATH \"c\")\n"}, "docs/BUILDING.md does not have HAKMEM_C"),
        ({"include/hakmem.h": "int hakmem_b(void);"}, "docs/man/hakmem.3 does not have hakmem_b"),
        ({"docs/man/hakmem.3": "hakmem_a"}, "docs/man/hakmem.3 does not have EPERM"),
        ({"docs/use.md": "```sh\nhakmem ran\n```\n"}, "docs/use.md: hakmem has no command ran"),
        ({"docs/decisions/README.md": "\n"}, "docs/decisions/README.md does not list 0001-a.md"),
        ({"docs/decisions/0001-a.md": "| a | " + "x" * (CELL_MAX + 1) + " |\n"},
         "docs/decisions/0001-a.md:1: a cell of 201 characters, at most 200"),
    ]
    for changes, expected in cases:
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**good, **changes}.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            found = check(root)
        if found != ([expected] if expected else []):
            harness.fail(f"{changes}: found {found}, not {expected}")
    print(f"{len(cases)} trees judged rightly")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = check(sys.argv[1])
    if found:
        harness.fail("; ".join(found))
    print(f"{len(list(documents(sys.argv[1])))} documents checked")


if __name__ == "__main__":
    main()
