"""The public headers compile alone, without a warning, as a program's own code is compiled: in every version of C and
C++, with the warnings that careful projects turn on, and under macros with the names of the functions that they
replace.

    headers.py INCLUDE CC CXX
"""

import subprocess
import sys

WARN = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef",
        "-Wmissing-declarations", "-Wredundant-decls"]  # fmt: skip
WARN_C = [*WARN, "-Wstrict-prototypes"]
WARN_CXX = [*WARN, "-Wold-style-cast", "-Wzero-as-null-pointer-constant", "-Woverloaded-virtual",
            "-Wnon-virtual-dtor", "-Weffc++"]  # fmt: skip
C = ("c89", "gnu89", "c99", "gnu99", "c11", "c17", "gnu17", "c2x")
OLD_CXX = ("c++98", "gnu++98")
CXX = ("c++11", "c++14", "c++17", "c++20", "c++2b")
# A program that replaces functions by macros, and names that attributes have.
MACROS = "".join(f"#define {name} other_{name}\n" for name in (
    "malloc", "free", "calloc", "realloc", "nonnull", "alloc_size", "visibility", "warn_unused_result"))  # fmt: skip


def run(compiler, language, flags, source):
    command = [compiler, "-fsyntax-only", "-O2", "-D_FORTIFY_SOURCE=3", *flags, "-x", language, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False)


def main():
    include, cc, cxx = sys.argv[1:]
    cases = [(cc, "c", std, "hakmem.h", []) for std in C]
    cases += [(cxx, "c++", std, "hakmem.h", []) for std in (*OLD_CXX, *CXX)]
    cases += [(cxx, "c++", std, header, flags) for std in CXX for header in ("hakmem.hpp", "hakmem_new.hpp")
              for flags in ([], ["-fno-exceptions", "-fno-rtti"])]  # fmt: skip
    failed = tried = 0
    for compiler, language, std, header, flags in cases:
        if run(compiler, language, [f"-std={std}"], "").returncode != 0:
            continue  # this compiler does not know that version
        warn = WARN_C if language == "c" else WARN_CXX
        source = f"#include <{header}>\n#include <{header}>\n"
        for text in [source, MACROS + source] if header == "hakmem.h" else [source]:
            tried += 1
            found = run(compiler, language, [f"-std={std}", "-I", include, *warn, *flags], text)
            if found.returncode != 0:
                failed += 1
                words = [line for line in found.stderr.splitlines() if "error:" in line]
                print(f"FAIL {header}, {compiler} -std={std} {' '.join(flags)}"
                      f"{' with macros' if text != source else ''}: {(words or ['?'])[0]}")  # fmt: skip
    print(f"{tried} compilations, {failed} with warnings")
    return 1 if failed or tried < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
