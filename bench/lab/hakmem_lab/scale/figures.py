"""Figures of runs: per operation, and their medians over the seeds."""

import collections
import statistics

HEAVIEST = 60  # places in the code that are looked up by name
FIGURES = {  # name -> what it is
    "transfers": "moves and upgrades of lines from one CPU to another",
    "allocator": "of them, by the allocator's own code",
    "far": "of them, between nodes",
    "invalidations": "copies that other CPUs lost",
    "false_sharing": "moves of a line of which nothing was used that another CPU had written",
    "locks": "acquisitions of locks",
    "process_locks": "of them, of locks that more than half of the CPUs took",
    "updates": "atomic read-modify-write operations",
    "failed": "compare-and-swaps and try-locks that failed",
    "wait_ns": "waiting for lines and locks",
    "fetches": "lines from memory, or from a cache that CPUs share",
    "copies": "of them, lines that CPUs only read, which others' caches have, too",
    "accesses": "instrumented memory accesses, touches of blocks included",
    "kernel_calls": "calls that map or unmap memory",
}


def transfers(site) -> int:
    return site["moves"] + site["upgrades"]


def is_own(site, counts) -> bool:
    """Whether the code belongs to the allocator, not to the workload."""
    return site["place"].get("file") == counts["malloc"]["file"]


def ask(names, counts) -> None:
    """Looks up the places that tables and locks() need."""
    heavy = sorted(counts["sites"], key=transfers, reverse=True)[:HEAVIEST]
    names.ask(site["place"] for site in heavy)
    names.ask(site["place"] for site in counts["sites"] if site["updates"])


def locks(names, counts) -> int:
    return sum(
        site["mutexes"] or (site["updates"] - site["failed"] if names.is_lock(site["place"]) else 0)
        for site in counts["sites"]
    )


def process_locks(names, counts) -> list:
    """[(acquisitions, place of the line)]. Where a place in the code takes several locks, what failed
    there counts for each by its part."""
    by_index = {site["site"]: site for site in counts["sites"]}
    found = []
    for line in counts["updated_by_most"]:
        taking = [(by_index[index], updates) for index, updates in line["updates"]
                  if by_index[index]["mutexes"] or names.is_lock(by_index[index]["place"])]  # fmt: skip
        taken = sum(updates * (1 - site["failed"] / site["updates"]) for site, updates in taking)
        if taken:
            found.append((taken, line["place"]))
    return found


def of_run(names, counts) -> dict:
    """The figures of one run, per operation; `bound_mops` is millions a second."""
    ask(names, counts)
    sites = counts["sites"]
    totals = {
        "transfers": sum(transfers(s) for s in sites),
        "allocator": sum(transfers(s) for s in sites if is_own(s, counts)),
        "far": sum(s["far"] for s in sites),
        "invalidations": sum(s["invalidations"] for s in sites),
        "false_sharing": sum(s["false_moves"] for s in sites),
        "locks": locks(names, counts),
        "process_locks": sum(taken for taken, _ in process_locks(names, counts)),
        "updates": sum(s["updates"] for s in sites),
        "failed": sum(s["failed"] for s in sites),
        "wait_ns": sum(s["line_wait_ns"] + s["wait_ns"] for s in sites),
        **{name: counts[name] for name in ("fetches", "copies", "accesses", "kernel_calls")},
    }
    found = {name: total / counts["operations"] for name, total in totals.items()}
    found["bound_mops"] = counts["operations"] * 1000 / max(counts["ns"], 1)
    return found


def spread(values) -> dict:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def combine(runs) -> dict:
    """{figure: median, low, high} of the runs of one cell."""
    return {name: spread([run[name] for run in runs]) for name in runs[0]}


def top_lines(names, counts, most) -> list:
    """The lines with most transfers: their variables, and the code that moved them."""
    by_index = {site["site"]: site for site in counts["sites"]}
    lines = counts["lines"][:most]
    names.ask(by_index[index]["place"] for line in lines for index, _ in line["sites"])
    return [
        {
            "line": names.data(line["place"]),
            "transfers": line["transfers"] / counts["operations"],
            "false_sharing": line["false_moves"] / counts["operations"],
            "wait_ns": line["wait_ns"] / counts["operations"],
            "code": [
                names.code(by_index[index]["place"])
                for index, _ in sorted(line["sites"], key=lambda pair: -pair[1])
            ],
        }
        for line in lines
    ]


def top_process_locks(names, counts, most) -> list:
    """The locks of the process that are taken most often, by the variables in their lines."""
    rows = sorted(process_locks(names, counts), key=lambda row: -row[0])[:most]
    return [{"line": names.data(place), "locks": taken / counts["operations"]}
            for taken, place in rows]  # fmt: skip


def top_places(names, counts, most) -> list:
    """The places in the code that made most transfers."""
    heavy = sorted(counts["sites"], key=transfers, reverse=True)[:most]
    return [
        {
            "code": names.code(site["place"]),
            "transfers": transfers(site) / counts["operations"],
            "false_sharing": site["false_moves"] / counts["operations"],
            "invalidations": site["invalidations"] / counts["operations"],
            "wait_ns": (site["line_wait_ns"] + site["wait_ns"]) / counts["operations"],
        }
        for site in heavy
        if transfers(site)
    ]


def top_functions(names, counts, most) -> list:
    """The functions with most accesses. Where transfers do not explain a bound, these do."""
    names.ask(site["place"] for site in counts["sites"])
    sums = collections.Counter()
    for site in counts["sites"]:
        sums[names.function(site["place"])] += site["accesses"]
    return [
        {"function": name, "accesses": accesses / counts["operations"]}
        for name, accesses in sums.most_common(most)
        if accesses
    ]
