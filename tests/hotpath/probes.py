"""The USDT probes: notes with the form that tracers read, each at an instruction that does nothing.

    probes.py LIBRARY
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

NAMES = {"refill", "flush", "purge", "grow", "sample", "sample_end"}
NOTE = re.compile(r"NT_STAPSDT.*\n\s+Provider: (\w+)\n\s+Name: (\w+)\n"
                  r"\s+Location: 0x(\w+), Base: 0x(\w+), Semaphore: 0x(\w+)\n\s+Arguments: (.*)\n")


def probes_of(library):
    return NOTE.findall(harness.must_run(["readelf", "-n", library]).out.decode())


def main():
    library = os.path.realpath(sys.argv[1])
    found = probes_of(library)
    if {name for _, name, *_ in found} != NAMES or {provider for provider, *_ in found} != {"hakmem"}:
        harness.fail(f"probes: {found}")
    base = harness.must_run(["readelf", "-SW", library]).out.decode()
    base = int(re.search(r"\.stapsdt\.base\s+PROGBITS\s+(\w+)", base)[1], 16)
    for _, name, place, of_note, semaphore, arguments in found:
        if int(of_note, 16) != base or int(semaphore, 16) or not re.fullmatch(r"8@%?\w+ 8@%?\w+", arguments):
            harness.fail(f"probe {name}: base {of_note}, not {base:x}; {semaphore}; {arguments}")
        start = int(place, 16)
        code = subprocess.run(["objdump", "-d", f"--start-address={start}", f"--stop-address={start + 4}", library],
                              capture_output=True, text=True, check=True).stdout
        if not re.search(rf"^ +{start:x}:\t[0-9a-f ]+\tnop", code, re.M):
            harness.fail(f"probe {name} is at no nop: {code[-200:]}")
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "stripped")
        shutil.copy(library, stripped)
        harness.must_run(["strip", "--strip-unneeded", stripped])
        if probes_of(stripped) != found:
            harness.fail("strip takes the probes away")
    print(f"{len(found)} probes of {len(NAMES)} names")


if __name__ == "__main__":
    main()
