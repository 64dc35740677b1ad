"""The options of `lab scale`. The standard library only: see front.py."""

from ..allocators import parse_name
from ..cli import Parser, number
from ..errors import BadInput

LOADS = {
    "mixed": "private blocks of 16 to 1024 B",
    "larson": "8 to 1000 B; threads end and others take over",
    "ring": "each thread frees the 64 B blocks of the one before it",
    "prodcons": "half the threads allocate, the others free",
    "pool": "tasks and results go to any thread",
    "churn": "threads of 100 operations",
    "realloc": "a block grows from 32 B to 64 KiB",
    "large": "private blocks of 65 KiB to 1 MiB",
    "huge": "private blocks of 1 to 4 MiB",
    "server": "40 threads on each CPU run in turn",
}
PEERS = ("mimalloc", "snmalloc", "jemalloc", "tcmalloc")
SUBJECT, FLOOR = "hakmem", "null"
ALLOCATORS = (SUBJECT, FLOOR, *PEERS)
PLAIN_ALLOCATORS = (SUBJECT, FLOOR, "mimalloc", "snmalloc")
PLAIN_CPUS = "2,4,16,64,192"
MACHINE = {  # option -> (low, high, default, what it is)
    "node": (1, 256, 64, "CPUs of a node"),
    "cache-kib": (16, 65536, 1024, "private cache of a CPU"),
    "ways": (1, 64, 16, "its associativity"),
    "hit-ns": (0, 1000, 1, "cost of an access"),
    "fetch-ns": (0, 10000, 20, "cost of fetching a line that no CPU's cache has"),
    "near-ns": (0, 100000, 45, "cost of a transfer within a node"),
    "far-ns": (0, 100000, 320, "cost of a transfer between nodes"),
    "quantum-ns": (1, 1000000, 100, "maximum distance between the clocks of two CPUs"),
    "slice-ns": (100, 100000000, 100000, "time slice of a thread when several share a CPU"),
    "ops": (1, 10000000, 1000, "measured operations of each thread"),
    "warm": (0, 10000000, 4000, "unmeasured operations of each thread before them"),
    "seats": (1, 1000, 40, "threads on each CPU in the workload server"),
}


def words(text, known, what) -> list:
    found = [word.strip() for word in text.split(",") if word.strip()]
    for word in found:
        if word not in known:
            raise BadInput(f"unknown {what} '{word}'; there are {', '.join(known)}")
    return list(dict.fromkeys(found))


def allocators_of(options) -> list:
    """[(name, base, environment)] of --alloc."""
    names = options.alloc.split(",") if options.alloc else list(PLAIN_ALLOCATORS)
    found = []
    for name in (n.strip() for n in names if n.strip()):
        base, environment = parse_name(name)
        words(base, ALLOCATORS, "allocator")
        found.append((name, base, environment))
    return found


def cpus_of(options) -> list:
    found = []
    for text in options.cpus.split(","):
        if not text.strip().isdigit() or not 1 <= int(text) <= 192:
            raise BadInput(f"--cpus: '{text}' is not in 1..192")
        found.append(int(text))
    return sorted(set(found))


def machine_of(options) -> dict:
    return {name: getattr(options, name.replace("-", "_")) for name in MACHINE}


def loads_of(options) -> list:
    return words(options.loads, LOADS, "workload") if options.loads else list(LOADS)


def parser() -> Parser:
    scale = Parser(
        description="Runs allocators on a simulated machine of N CPUs and counts the cache lines "
        "that go from one CPU to another, by line and by place in the code.",
        epilog="Workloads: " + "; ".join(f"{k}: {v}" for k, v in LOADS.items()) + ".",
    )
    scale.add_argument("--alloc", help=f"of {','.join(ALLOCATORS)}; hakmem+NAME=VALUE sets an option"
                       f" (default: {','.join(PLAIN_ALLOCATORS)})")  # fmt: skip
    scale.add_argument("--loads", help="workloads, with commas between (default: all)")
    scale.add_argument("--cpus", default=PLAIN_CPUS, help=f"default {PLAIN_CPUS}")
    scale.add_argument("--seeds", type=number(int, 1, 100), default=5, help="runs of each (5)")
    scale.add_argument("--lines", type=number(int, 0, 200), default=6,
                       help="lines and places shown for each run of the first allocator (6)")  # fmt: skip
    scale.add_argument("--jobs", type=number(int, 1, 256), help="runs at a time (one per CPU)")
    scale.add_argument("--limit", type=number(float, 1, 86400), default=600,
                       help="seconds that one run may take (600)")  # fmt: skip
    scale.add_argument("--out", help="folder for the results (default: build/scale-runs/<time>)")
    scale.add_argument("--resume", metavar="FOLDER",
                       help="continue an interrupted run; what its cells.jsonl has is not counted again")  # fmt: skip
    scale.add_argument("--quick-first", action="store_true",
                       help="begin with few CPUs and one run of each row")  # fmt: skip
    scale.add_argument("--from", dest="source", metavar="FOLDER[,FOLDER]",
                       help="run nothing, use the scale.json of earlier runs; needs --publish")  # fmt: skip
    scale.add_argument("--publish", action="store_true",
                       help="make docs/benchmarks/SCALE.md of them")  # fmt: skip
    scale.add_argument("--build", help="CMake build folder with the program scale")
    scale.add_argument("--validate", action="store_true",
                       help="rank the allocators by time on two real CPUs; compare with 2 simulated ones")  # fmt: skip
    for name, (low, high, plain, about) in MACHINE.items():
        scale.add_argument(f"--{name}", type=number(int, low, high), default=plain,
                           help=f"{about} ({plain})")  # fmt: skip

    def check(options):
        loads_of(options)
        cpus_of(options)
        allocators_of(options)
        if bool(options.source) != options.publish:
            raise BadInput("--from FOLDER and --publish belong together")
        if options.cache_kib * 1024 // 64 % options.ways:
            raise BadInput("--cache-kib must be a multiple of --ways lines of 64 bytes")

    scale.check = check
    return scale
