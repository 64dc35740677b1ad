"""A machine of 16 CPUs in four nodes, made by an emulator with a Linux of its own: the model and the soak run there
by preload while seven of the CPUs, one at a time, go and come back.

    machine.py LIBRARY PROGRAM...

The programs are test_model and test_soak. HAKMEM_TEST_KERNEL names the file of a kernel; without it Debian's for virtual machines
is downloaded, not installed. Skipped, with the reason, where the emulator or a kernel is missing. Shown: the machine
is as it was asked for, each run ends well, HAKMEM knows all nodes, CPUs did go, and the kernel reports nothing.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness  # noqa: E402

CPUS, NODES, MIB_OF_NODE = 16, 4, 768
PACKAGE = "linux-image-cloud-amd64"
# Each is a line of the shell there: settings, program and arguments.
RUNS = (
    "test_model all 2000 4 1",
    "test_soak 400 16 1",
    "HAKMEM_PROFILE=HARDENED test_model all 1000 4 2",
    "HAKMEM_SHARDS=64 test_model all 1000 24 3",
)
INIT = """#!/bin/busybox sh
export PATH=/bin:/tests
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
echo "machine: $(nproc) CPUs, $(ls -d /sys/devices/system/node/node[0-9]* | wc -l) nodes"
change() { echo $1 >/sys/devices/system/cpu/cpu$cpu/online && echo $1 >>/tmp/changes; sleep 1; }
(while :; do for cpu in 15 14 13 9 8 5 4; do change 0; change 1; done; done) 2>/tmp/refused &
changing=$!
run() {
    echo "run: $*"
    env HAKMEM_STATS=json HAKMEM_STATS_FILE=/tmp/%p.json LD_PRELOAD=/tests/libhakmem.so "$@"
    echo "status: $?"
}
RUNS
kill $changing
echo "changes: $(wc -l </tmp/changes), refused: $(wc -l </tmp/refused)"
for file in /tmp/*.json; do echo "nodes: $(grep -o '"nodes": *[0-9]*' $file | head -1 | grep -o '[0-9]*$')"; done
dmesg | grep -E 'BUG|Oops|segfault|Out of memory|blocked for more' | sed 's/^/kernel: /'
echo "the end"
poweroff -f
"""


def find_kernel(folder):
    """The file of a kernel: the one that is named, or the one in the package, unpacked here."""
    named = os.environ.get("HAKMEM_TEST_KERNEL")
    if named:
        if not os.path.isfile(named):
            harness.fail(f"HAKMEM_TEST_KERNEL={named} is no file; give the path of a kernel, as /boot/vmlinuz-VERSION")
        return named
    harness.need("apt-get", "apt-cache", "dpkg")
    known = harness.run(["apt-cache", "depends", PACKAGE])
    found = re.search(rb"Depends: (\S+)", known.out)
    if not found or harness.run(["apt-get", "download", found[1].decode()], cwd=folder, seconds=300).status != 0:
        print(f"skipped: no package {PACKAGE} can be downloaded, and HAKMEM_TEST_KERNEL names no kernel")
        sys.exit(77)
    harness.must_run(["dpkg", "-x", glob.glob(f"{folder}/*.deb")[0], f"{folder}/package"])
    return glob.glob(f"{folder}/package/boot/vmlinuz-*")[0]


def libraries_of(file):
    """The shared libraries and the loader of a program, as paths."""
    return re.findall(rb"(/\S+) \(0x", harness.must_run(["ldd", file]).out)


def make_root(folder, library, programs):
    """The first file system of the machine, packed: a shell, the programs and what they load."""
    root = f"{folder}/root"
    for name in ("bin", "tests", "proc", "sys", "dev", "tmp"):
        os.makedirs(f"{root}/{name}")
    shutil.copy(shutil.which("busybox"), f"{root}/bin/busybox")
    shutil.copy(library, f"{root}/tests/libhakmem.so")
    for program in programs:
        shutil.copy(program, f"{root}/tests/")
    for path in {path.decode() for file in (library, *programs) for path in libraries_of(file)}:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    with open(f"{root}/init", "w", encoding="ascii") as file:
        file.write(INIT.replace("RUNS\n", "".join(f"run {words}\n" for words in RUNS)))
    os.chmod(f"{root}/init", 0o755)
    names = subprocess.run(["find", ".", "-print0"], cwd=root, check=True, stdout=subprocess.PIPE).stdout
    packed = harness.must_run(["cpio", "-0", "-o", "-H", "newc", "--quiet"], cwd=root, stdin=names).out
    with open(f"{folder}/root.cpio", "wb") as file:
        file.write(packed)
    return f"{folder}/root.cpio"


def run_machine(kernel, root):
    """All that it printed until it was switched off."""
    each = CPUS // NODES
    # Without monitor=off a CPU that is offline waits by MWAIT, which the emulator makes a busy loop. One such run stood
    # still, with no other CPU at work.
    argv = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max,monitor=off", "-nographic",
            "-no-reboot", "-smp", f"{CPUS},sockets={NODES},cores={each}", "-m", f"{NODES * MIB_OF_NODE}M", "-kernel", kernel,
            "-initrd", root, "-append", "console=ttyS0 quiet panic=-1", "-nic", "none"]
    for node in range(NODES):
        argv += ["-object", f"memory-backend-ram,id=m{node},size={MIB_OF_NODE}M",
                 "-numa", f"node,cpus={node * each}-{node * each + each - 1},memdev=m{node}"]
    return harness.must_run(argv, seconds=300).out.decode(errors="replace").replace("\r", "")


def main():
    library, *programs = map(os.path.realpath, sys.argv[1:])
    if os.uname().machine != "x86_64":
        print("skipped: the emulated machine is of x86-64, and the programs are not")
        sys.exit(77)
    harness.need("qemu-system-x86_64", "busybox", "cpio", "ldd")
    with tempfile.TemporaryDirectory(prefix="hakmem-test-") as work:
        said = run_machine(find_kernel(work), make_root(work, library, programs))
    statuses = re.findall(r"^status: (\d+)$", said, re.M)
    changes = re.search(r"^changes: (\d+), ", said, re.M)
    good = (f"machine: {CPUS} CPUs, {NODES} nodes" in said and "the end" in said and "kernel: " not in said
            and statuses == ["0"] * len(RUNS) and changes and int(changes[1]) > 0
            and set(re.findall(r"^nodes: (\d*)$", said, re.M)) == {str(NODES)})
    start = said.find("machine: ")
    print(said[max(start, 0):])
    if not good:
        harness.fail("the machine's run is not as it must be: see above")


main()
