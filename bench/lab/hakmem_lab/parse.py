"""Reads what the benchmark programs print."""

import re

from .errors import LabError

THROUGHPUT = re.compile(r"^Throughput = (\d+) ops/s \[([^\]]*)\] time=([0-9.]+)s$", re.MULTILINE)
RSS = re.compile(r"^\[RSS\] max_kb=(\d+)$", re.MULTILINE)
PAIR = re.compile(r"(\w+)=(\S+)")


def _value(text):
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def throughput(stdout: str) -> dict:
    """ops_per_s, seconds and the bracketed pairs (as `extra`) of a program's result line."""
    found = THROUGHPUT.search(stdout)
    if found is None:
        raise LabError(f"no 'Throughput =' line in the output: {stdout.strip()[:120]!r}")
    ops = int(found.group(1))
    if ops <= 0:
        raise LabError("the program reports 0 ops/s")
    return {
        "ops_per_s": ops,
        "seconds": float(found.group(3)),
        "extra": {key: _value(text) for key, text in PAIR.findall(found.group(2))},
    }


def pairs(text: str, names) -> dict:
    """The key=value pairs of these names, wherever a program prints them; the last one counts."""
    return {key: _value(value) for key, value in PAIR.findall(text) if key in names}


def peak_rss_kb(stderr: str) -> int:
    """The peak RSS that a program prints of itself."""
    found = RSS.search(stderr)
    if found is None:
        raise LabError(f"no '[RSS] max_kb=' line in the output: {stderr.strip()[:120]!r}")
    return int(found.group(1))
