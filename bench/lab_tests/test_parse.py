import subprocess

import pytest
from hakmem_lab import parse
from hakmem_lab.errors import LabError

LINE = "Throughput = 5210713 ops/s [threads=2000 growth=1.0392 order=random] time=0.077s\n"


def test_result_line():
    found = parse.throughput(f"something before\n{LINE}")
    assert found["ops_per_s"] == 5210713
    assert found["seconds"] == 0.077
    assert found["extra"] == {"threads": 2000, "growth": 1.0392, "order": "random"}


def test_rss_line():
    assert parse.peak_rss_kb("noise\n[RSS] max_kb=1932\n") == 1932


@pytest.mark.parametrize("text", ["", "Throughput = fast", LINE.replace("5210713", "0")])
def test_bad_result_line(text):
    with pytest.raises(LabError):
        parse.throughput(text)


def test_missing_rss():
    with pytest.raises(LabError):
        parse.peak_rss_kb("nothing")


@pytest.mark.parametrize(
    "program, arguments",
    [
        ("bench_random_mixed_system", ["20000", "64", "7", "16", "64"]),
        ("bench_bulk", ["100", "64"]),
    ],
)
def test_programs_print_what_is_parsed(build, program, arguments):
    done = subprocess.run(
        [build / program, *arguments], capture_output=True, text=True, timeout=300, check=True
    )
    assert parse.throughput(done.stdout)["ops_per_s"] > 0
    assert parse.peak_rss_kb(done.stderr) > 100


@pytest.mark.parametrize(
    "arguments, environment, said",
    [
        (["0"], {}, "iterations must be a number from 1"),
        (["12x"], {}, "not '12x'"),
        (["-1"], {}, "not '-1'"),
        (["10", "0"], {}, "working_set"),
        (["10", "4", "0"], {}, "seed"),
        (["10", "4", "1", "64", "16"], {}, "min (64) is larger than max (16)"),
        (["1", "2", "3", "4", "5", "6"], {}, "6 arguments, but 5 at most"),
        (["10"], {"HAKMEM_BENCH_PREFAULT": "x"}, "HAKMEM_BENCH_PREFAULT"),
        (["10"], {"HAKMEM_BENCH_C5_ONLY": "1", "HAKMEM_BENCH_C7_ONLY": "1"}, "cannot both be 1"),
    ],
)
def test_bad_arguments_give_one_line(build, arguments, environment, said):
    done = subprocess.run(
        [build / "bench_random_mixed_system", *arguments],
        capture_output=True, text=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == ""
