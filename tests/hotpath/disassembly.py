"""malloc and free in libhakmem.so: no lock prefix, no stack frame, no call; slow paths by tail jump;
each begins a cache line.

    disassembly.py LIBRARY

Looks at every instruction between the symbol and its end, reachable or not.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

FUNCTIONS = ("malloc", "free")
LINE = 64

# What must not stand there, by kind, as patterns over one instruction in AT&T syntax.
X86_FORBIDDEN = {
    "a locked instruction": r"^lock\b|^xchg[lqwb]?\s.*\(",
    "a stack frame": r"^push|^pop|^(sub|add|lea|and)q?\s.*,%rsp$|^enter|^leave",
    "a call": r"^call",
    "a trace of stack protection": r"%fs:0x28",
}
ARM_FORBIDDEN = {
    "an atomic instruction": r"^(ld|st)(a|l)?xr|^cas|^swp|^ld(add|set|clr|eor)|^dmb",
    "a stack frame": r"\[sp, #-\d+\]!|^sub\s+sp",
    "a call": r"^blr?\s",
}


def symbols(library):
    """Address and size of each exported function."""
    lines = harness.must_run(["readelf", "-W", "--dyn-syms", library]).out.decode().splitlines()
    found = {}
    for line in lines:
        words = line.split()
        if len(words) >= 8 and words[3] in ("FUNC", "IFUNC"):
            if words[3] == "IFUNC" and words[7] in FUNCTIONS:
                harness.fail(f"{words[7]} is an IFUNC")
            found[words[7].split("@")[0]] = (int(words[1], 16), int(words[2], 0))
    return found


def instructions(library, start, size):
    """The function's instructions as text."""
    text = harness.must_run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={start:#x}",
                             f"--stop-address={start + size:#x}", library]).out.decode()
    return [found.group(1).strip() for found in
            re.finditer(r"^\s*[0-9a-f]+:\s+(.+)$", text, re.MULTILINE)], text


def main():
    library = sys.argv[1]
    known = symbols(library)
    machine = os.uname().machine
    if machine not in ("x86_64", "aarch64"):
        harness.fail(f"no table of instructions for {machine}")
    forbidden = X86_FORBIDDEN if machine == "x86_64" else ARM_FORBIDDEN
    for function in FUNCTIONS:
        if function not in known or known[function][1] == 0:
            harness.fail(f"the library has no function {function}")
        if known[function][0] % LINE:
            harness.fail(f"{function} does not begin a cache line: {known[function][0]:#x}")
        listing, text = instructions(library, *known[function])
        if "(bad)" in text or len(listing) < 5:
            harness.fail(f"{function} cannot be disassembled")
        for what, pattern in forbidden.items():
            for instruction in listing:
                if re.search(pattern, instruction):
                    harness.fail(f"{function} has {what}: {instruction}")
        print(f"{function}: {len(listing)} instructions, none of them forbidden")


if __name__ == "__main__":
    main()
