"""The Debian packages: debian.py CC pack BUILD, or debian.py CC make SOURCE.

They are made of a build folder by cpack, or of the sources by `make deb`, installed into a root that
holds a shell, ldconfig and what dpkg depends on and nothing else, used there, and removed.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import clean  # noqa: E402
import harness  # noqa: E402

NAMES = ["hakmem", "libhakmem-dev", "libhakmem1"]
# What the root has from the system: what runs the scripts of the packages, programs to run on HAKMEM,
# and dpkg-deb, with which zlib comes.
PROGRAMS = ["/bin/sh", "/bin/cat", "/sbin/ldconfig", "/usr/bin/dpkg-deb"]
# The packages that ours depend on. dpkg itself depends on both, so each Debian has them.
PRESENT = ["libc6", "zlib1g"]
RECORDER = ("hakmem-replay", "libhakmem_record.so")


def as_root(argv):
    """Alters the owner of files and the root folder: as root, or as one of its own user namespace."""
    return argv if os.geteuid() == 0 else ["unshare", "-r"] + argv


def skip_unrooted():
    """Not every system lets a user have such a namespace, nor root of a container change the root folder."""
    if subprocess.run(as_root(["chroot", "/", "true"]), stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("skipped: nobody may change the root folder here")
        sys.exit(77)


def copy_with_libraries(root, path):
    """Copies a program and what it loads to the same places below root."""
    text = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    files = [path] + [word for word in text.split() if word.startswith("/")]
    for file in files:
        target = root + file
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(file, target)


def make_root(folder):
    """A root in which dpkg works, and that knows the system's packages of PRESENT."""
    root = os.path.join(folder, "root")
    for part in ("updates", "info", "triggers"):
        os.makedirs(os.path.join(root, "var/lib/dpkg", part))
    for place in ("usr/bin", "usr/lib", "usr/sbin", "usr/lib64", "etc", "proc", "tmp"):
        os.makedirs(os.path.join(root, place), exist_ok=True)
    for place in ("bin", "lib", "sbin", "lib64"):  # as in a system with one /usr
        os.symlink(f"usr/{place}", os.path.join(root, place))
    for program in PROGRAMS:
        copy_with_libraries(root, program)
    status = harness.must_run(["dpkg-query", "-s"] + PRESENT).out
    with open(os.path.join(root, "var/lib/dpkg/status"), "wb") as file:
        file.write(status + b"\n")
    return root


def files_of(root):
    """All files and links below root, but not what dpkg and ldconfig keep for themselves."""
    found = set()
    for folder, _, names in os.walk(root):
        found.update(os.path.relpath(os.path.join(folder, name), root) for name in names)
    return {name for name in found
            if not name.startswith(("var/lib/dpkg/", "var/log/", "etc/ld.so.cache", "var/cache/"))}


def dpkg(root, *words):
    """dpkg on that root; it asks nothing and has the scripts' folders."""
    return harness.run(as_root(["dpkg", f"--root={root}", "--force-unsafe-io", *words]),
                       env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def must(result, what):
    """The step ended well."""
    if result.status != 0:
        harness.fail(f"{what}: status {result.status}: {result.last_words()}")


def inside(root, *words):
    """Runs a program of the root, whose file system begins there."""
    return harness.run(as_root(["chroot", root, *words]), env={"PATH": "/usr/bin:/usr/sbin"})


def check_program(root, folder, cc):
    """A program that is built against the files of libhakmem-dev runs in the root."""
    found = glob.glob(f"{root}/usr/lib/**/libhakmem.so", recursive=True)
    if not found:
        harness.fail("libhakmem-dev has no libhakmem.so")
    libraries = os.path.dirname(found[0])
    program = os.path.join(folder, "prog")
    harness.must_run([cc, os.path.join(HERE, "consumers", "prog.c"), f"-I{root}/usr/include",
                      f"-L{libraries}", "-lhakmem", "-o", program])
    shutil.copy(program, os.path.join(root, "usr/bin/prog"))
    result = inside(root, "prog")
    must(result, "the program in the root")
    if result.out != b"served by 10000\n":
        harness.fail(f"the program in the root printed {result.out.decode().strip()}")
    os.remove(os.path.join(root, "usr/bin/prog"))


def check_command(root):
    """A program of the root runs on the library, which ldconfig has to have found, and the command
    knows the version. `hakmem run` needs /proc, which the root does not have."""
    result = inside(root, "sh", "-c", "HAKMEM_STATS=text LD_PRELOAD=libhakmem.so.1 cat /none")
    if result.status != 1 or b"live_bytes" not in result.err:
        harness.fail(f"a program in the root: status {result.status}: {result.last_words()}")
    version = inside(root, "hakmem", "--version")
    if version.out.split()[-1:] != [b"1.0.0"]:
        harness.fail(f"hakmem --version in the root: {version.out!r} {version.last_words()}")


def check_recorder(root):
    """The recorder and its replayer load with what the package of the command depends on."""
    found = [glob.glob(f"{root}/usr/lib/**/hakmem/{name}", recursive=True) for name in RECORDER]
    replay, record = (paths[0][len(root):] for paths in found)
    result = inside(root, "sh", "-c", f"LD_PRELOAD={record} {replay} /none")
    if result.status != 1 or b"ld.so" in result.err or b"/none" not in result.err:
        harness.fail(f"hakmem-replay in the root: status {result.status}: {result.last_words()}")


def check_packages(files, has_recorder):
    """There are three, each with its licence and changelogs; that of the command has the recorder."""
    names = sorted(os.path.basename(file).split("_")[0] for file in files)
    if names != NAMES:
        harness.fail(f"the packages are {names}, not {NAMES}")
    for file in files:
        name = os.path.basename(file).split("_")[0]
        listed = harness.must_run(["dpkg-deb", "-c", file]).out.decode()
        for document in ("copyright", "changelog.gz", "changelog.Debian.gz"):
            if f"./usr/share/doc/{name}/{document}\n" not in listed:
                harness.fail(f"{file}: no usr/share/doc/{name}/{document}")
        for part in RECORDER:
            if (f"/hakmem/{part}\n" in listed) != (has_recorder and name == "hakmem"):
                harness.fail(f"{file}: {part} is missing or in the wrong package")


def make_packages(folder, how, where):
    """The package files: of a build folder, or as a user makes them of the sources."""
    packages = os.path.join(folder, "packages")
    if how == "pack":
        harness.must_run(["cpack", "-G", "DEB", "-B", packages], cwd=where)
    else:
        harness.must_run(["make", "-C", where, "deb"], seconds=clean.SECONDS)
        packages = os.path.join(where, "build", "deb", "packages")
    return sorted(glob.glob(os.path.join(packages, "*.deb")))


def main():
    """Packs, installs, uses and removes."""
    skip_unrooted()
    cc, how, where = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        files = make_packages(folder, how, where)
        # `make deb` installs zlib's header; a build folder may lack the recorder, as it lacks zlib.
        has_recorder = how == "make" or os.path.exists(os.path.join(where, "hakmem-replay"))
        check_packages(files, has_recorder)
        root = make_root(folder)
        before = files_of(root)
        tools = [file for file in files if os.path.basename(file).startswith("hakmem_")]
        if dpkg(root, "-i", *tools).status == 0:
            harness.fail("the command was installed without its library")
        must(dpkg(root, "-P", "hakmem"), "purge of the lone command")
        must(dpkg(root, "-i", *files), "dpkg -i")
        must(dpkg(root, "--audit"), "dpkg --audit")
        must(dpkg(root, "--verify"), "dpkg --verify")
        check_program(root, folder, cc)
        check_command(root)
        if has_recorder:
            check_recorder(root)
        must(dpkg(root, "-i", *files), "dpkg -i of what is there")
        must(dpkg(root, "-P", *NAMES), "dpkg -P")
        left = files_of(root) - before
        if left:
            harness.fail(f"left behind: {' '.join(sorted(left))}")


if __name__ == "__main__":
    main()
