"""Names what has to be built for the tests of a name: targets.py BUILD_FOLDER REGEX [--short]

With --short for those alone that `make test` runs.
One target a line, from the files of the build folder that the tests' commands and environments name.
The exit status is 1 when no test has such a name.
"""

import pathlib
import re
import sys

# Files that are not called as their targets.
OUTPUTS = {"hakmem": "hakmem_command", "hakmem-replay": "hakmem_replay", "hakmem.o": "hakmem_object",
           "libhakmem.a": "hakmem_static", "libhakmem.so": "hakmem_shared"}

ROW = re.compile(r"^(add_test|set_tests_properties)\((?:\[=*\[(.*?)\]=*\]|(\S+)) (.*)\)$", re.MULTILINE)


def rows(build):
    """{test: the text of its command and properties}"""
    found = {}
    for path in build.glob("**/CTestTestfile.cmake"):
        for _, bracketed, plain, rest in ROW.findall(path.read_text()):
            name = bracketed or plain
            found[name] = found.get(name, "") + " " + rest
    return found


def target_of(path):
    folder = re.search(r"CMakeFiles/(\w+)\.dir/", path)
    if folder:
        return folder[1]
    name = re.sub(r"\.so[.\d]*$", ".so", path.rpartition("/")[2])
    return OUTPUTS.get(name) or re.sub(r"^lib(.*)\.so$", r"\1", name)


def wanted_by(build, regex, short=False):
    """The targets that the tests of a name need; empty when there is no such test."""
    tests = rows(build)
    if short:
        tests = {name: text for name, text in tests.items() if not re.search(r'LABELS "(long|repeat)"', text)}
    texts = {text for name, text in tests.items() if re.search(regex, name)}
    if any("FIXTURES_REQUIRED" in text for text in texts):
        texts |= {text for text in tests.values() if "FIXTURES_SETUP" in text}
    paths = {path for text in texts
             for path in re.findall(re.escape(str(build)) + r"/[^\s\";]+", text)}
    # Folders for a test's own files have no dot and are no program.
    required = {path for text in texts for files in re.findall(r'REQUIRED_FILES "([^"]*)"', text)
                for path in files.split(";")}
    return {target_of(path) for path in paths
            if path in required or re.search(r"/(lib)?(test|bench)_[^/]*$|/(lib)?hakmem[^/]*$|\.dir/", path)}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    try:
        re.compile(sys.argv[2])
    except re.error as error:
        sys.exit(f"'{sys.argv[2]}' is no regular expression: {error}")
    targets = wanted_by(build, sys.argv[2], sys.argv[3:] == ["--short"])
    if not targets and not any(re.search(sys.argv[2], name) for name in rows(build)):
        sys.exit(f"no test of {build.name} has a name like '{sys.argv[2]}'; "
                 f"'ctest --test-dir build/{build.name} -N' lists them")
    print("\n".join(sorted(targets)))


if __name__ == "__main__":
    main()
