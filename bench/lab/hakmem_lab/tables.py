"""What a comparison is made of: a row's and an allocator's shape, and our own allocators.

The rows themselves are in workloads.py, the peers in bench/peers/table.py.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One workload. In `args`, {n} is the scaled count and {s} the seconds of a sample.

    kind "rate": `program` is one of ours and prints its Throughput and [RSS] lines.
    kind "command": `program` is any command; its wall time (1 / s) is the speed, and the largest
    process of its tree the RSS. `needs` names what must be there: (command, Debian package).
    """

    key: str
    group: str
    title: str
    program: str
    args: tuple
    count: int = 0  # {n} before scaling; 0 = the program runs for {s} or for a fixed count
    seconds: float = 0.0  # length of a run, where the row itself says it; 0 = it does not
    headroom: float = 1.0  # how much longer than a sample the system allocator is given
    null: bool = False  # the null allocator can run it
    threads: bool = False  # depends on how far apart the CPUs are
    memory: str = ""  # the printed figure that the row is about, if it is not speed
    kind: str = "rate"
    needs: tuple = ()
    environment: tuple = ()  # (name, value) pairs the command runs with
    sizes: tuple = ("standard", "full")  # the runs that have this row
    words: tuple = ()  # a command of the user's: these words, whatever stands in them ...
    folder: str = ""  # ... in this folder


@dataclass(frozen=True)
class Allocator:
    """`library` is preloaded; None = the system allocator as it is.

    kind: subject (HAKMEM as it is), system, peer, limit (the null allocator), variant (HAKMEM
    built or set otherwise: compared, but no rival of the subject).
    """

    name: str
    title: str
    library: str = None
    version: str = ""
    kind: str = "peer"
    environment: dict = field(default_factory=dict, compare=False)


SUBJECT = "hakmem"
SYSTEM = "system"
LIMIT = "null"

# name -> title; the peers themselves, with versions and sources, are in bench/peers/table.py
OWN_ALLOCATORS = {
    SUBJECT: Allocator(SUBJECT, "HAKMEM", kind="subject"),
    SYSTEM: Allocator(SYSTEM, "glibc", kind="system"),
    LIMIT: Allocator(LIMIT, "null (limit)", kind="limit"),
}


@dataclass(frozen=True)
class Build:
    """HAKMEM built in another way: an allocator for those who name it, once it is built."""

    name: str
    title: str
    library: str  # below the project's root
    remedy: str


OWN_BUILDS = {
    build.name: build
    for build in (
        Build("hakmem-pgo", "HAKMEM, PGO", "build/pgo/libhakmem.so", "make pgo"),
        Build("hakmem-nolto", "HAKMEM, no LTO", "build/nolto/libhakmem.so", "make nolto"),
        Build("hakmem-debug", "HAKMEM, debug", "build/debug/libhakmem.so", "make debug"),
    )
}
