"""Names of allocators with settings, and what a library says about them."""

import pytest
from hakmem_lab import allocators
from hakmem_lab.errors import LabError
from hakmem_lab.launch import Outcome
from hakmem_lab.tables import OWN_BUILDS, Allocator

HAKMEM = Allocator("hakmem", "HAKMEM", "/lib/x.so", kind="subject", environment={"A": "1"})


def test_names_with_settings():
    assert allocators.parse_name("hakmem") == ("hakmem", {})
    assert allocators.parse_name("hakmem+HAKMEM_A=1+HAKMEM_B=x=y") == (
        "hakmem", {"HAKMEM_A": "1", "HAKMEM_B": "x=y"},
    )  # fmt: skip
    assert allocators.parse_name("hakmem:larson_guard+HAKMEM_A=") == (
        "hakmem", {"HAKMEM_TINY_PROFILE": "larson_guard", "HAKMEM_A": ""},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["hakmem+", "hakmem+X", "hakmem+=1", "hakmem+1X=1", "hakmem:"])
def test_bad_settings(name):
    with pytest.raises(LabError, match="allocator"):
        allocators.parse_name(name)


def test_a_variant_keeps_what_it_varies():
    made = allocators.variant(HAKMEM, {"HAKMEM_X": 64})
    assert made.name == "hakmem+HAKMEM_X=64" and made.title == "HAKMEM X=64"
    assert made.environment == {"A": "1", "HAKMEM_X": "64"} and made.kind == "variant"
    assert made.library == HAKMEM.library
    named = allocators.variant(HAKMEM, {"HAKMEM_X": 64}, name="b", title="B")
    assert (named.name, named.title) == ("b", "B")


def test_found_by_name_with_and_without_the_plain_one(build):
    libraries = {"mine": str(build / "libnull.so")}
    found, _ = allocators.find(["system", "mine+X=1"], libraries, build)
    assert [a.name for a in found] == ["system", "mine", "mine+X=1"]
    found, _ = allocators.find(["system+MALLOC_ARENA_MAX=1"], {}, build)
    assert [(a.name, a.title, a.environment) for a in found] == [
        ("system+MALLOC_ARENA_MAX=1", "glibc MALLOC_ARENA_MAX=1", {"MALLOC_ARENA_MAX": "1"})
    ]
    assert "glibc" in allocators.find(["system"], {}, build)[0][0].version


def test_a_build_that_is_not_there_names_its_remedy(build, monkeypatch, tmp_path):
    monkeypatch.setattr(allocators, "ROOT", tmp_path)
    for name, row in OWN_BUILDS.items():
        with pytest.raises(LabError, match=f"{name}: .* is not built; run '{row.remedy}' first"):
            allocators.find([name], {}, build)


class Answer:
    """A launcher whose programs print this on stderr."""

    def __init__(self, text):
        self.text = text

    def run(self, *_):
        cost = {"exit": 0, "timed_out": False, "signal": 0}
        return Outcome(cost, b"", self.text.encode())


@pytest.mark.parametrize(
    "said",
    [
        "unknown option HAKMEM_X is ignored; the options are in docs",
        "option HAKMEM_X: '7' is not a number in 1..2; the default is kept",
    ],
)
def test_options_that_the_library_does_not_take_are_refused_by_name(said):
    made = allocators.variant(HAKMEM, {"HAKMEM_X": 7})
    with pytest.raises(LabError, match="HAKMEM_X"):
        allocators.check_options(made, Answer(f"noise\nhakmem: {said}\n[RSS] max_kb=1\n"), "empty")
    # about another one, which the caller's environment may have
    allocators.check_options(made, Answer("hakmem: unknown option HAKMEM_XY is ignored\n"), "empty")
    with pytest.raises(LabError, match="no option HAKMEM_X"):
        system = allocators.variant(Allocator("system", "glibc"), {"HAKMEM_X": 7})
        allocators.check_options(system, Answer(""), "empty")
