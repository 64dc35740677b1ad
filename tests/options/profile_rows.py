"""A row of profiles.def that names what does not exist does not compile.

    profile_rows.py COMPILER SOURCE_FOLDER
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

TABLES = {
    'PROFILE(ONE, "help")\nPROFILE_SET(ONE, SHARDS, "1")\n': None,
    'PROFILE(ONE, "help")\nPROFILE_SET(ONE, NO_SUCH_OPTION, "1")\n': b"HAK_OPTION_NO_SUCH_OPTION",
    'PROFILE(ONE, "help")\nPROFILE_SET(TWO, SHARDS, "1")\n': b"HAK_PROFILE_TWO",
    'PROFILE(ONE, "help")\nPROFILE_SET(ONE, SHARDS, "a value without end")\n': b"too long",
}


def main():
    compiler, source = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "options"))
        for table, complaint in TABLES.items():
            with open(os.path.join(folder, "options", "profiles.def"), "w",
                      encoding="ascii") as file:
                file.write(table)
            result = harness.run([compiler, "-std=gnu11", "-Werror", "-fsyntax-only", f"-I{folder}",
                                  f"-I{source}", os.path.join(source, "options", "profiles.c")])
            if complaint is None and result.status != 0:
                harness.fail(f"a right table does not compile: {result.last_words()}")
            if complaint and (result.status == 0 or complaint not in result.err):
                harness.fail(f"{table!r} compiles, or fails for another reason: "
                             f"{result.last_words()}")
    print(f"{len(TABLES) - 1} wrong rows are refused")


if __name__ == "__main__":
    main()
