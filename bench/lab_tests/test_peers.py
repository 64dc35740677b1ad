"""The table and the cache of the peers; nothing is built or fetched here."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "peers"


@pytest.fixture(scope="module")
def builder():
    sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location("build", FOLDER / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(FOLDER))
    return module


def test_table_is_whole(builder):
    names = [peer.name for peer in builder.PEERS]
    assert len(set(names)) == len(names)
    assert {"mimalloc", "mimalloc2", "snmalloc", "jemalloc", "gperftools", "tcmalloc"} <= set(names)
    for peer in builder.PEERS:
        assert peer.recipe in builder.RECIPES and peer.recipe in builder.NEEDED_TOOLS
        assert all(tool in builder.TOOLS for tool in builder.NEEDED_TOOLS[peer.recipe])


def test_key_follows_recipe_and_compiler_but_not_the_title(builder):
    peer = builder.PEERS[0]
    key = builder.key_of(peer, "gcc 12")
    assert key == builder.key_of(dataclasses.replace(peer, title="other"), "gcc 12")
    assert key != builder.key_of(peer, "gcc 13")
    assert key != builder.key_of(dataclasses.replace(peer, version="9.9.9"), "gcc 12")


def test_what_is_cached_is_not_built_again(builder, tmp_path, monkeypatch):
    peer = next(p for p in builder.PEERS if p.name == "snmalloc")
    home = builder.home_of(peer, tmp_path, builder.compiler_line())
    home.mkdir(parents=True)
    (home / "peer.json").write_text(json.dumps({"version": "1.2"}))
    monkeypatch.setattr(builder, "make", lambda *_: pytest.fail("built again"))
    records, failed = builder.build_all(["snmalloc"], tmp_path, 1)
    assert not failed and records[0]["version"] == "1.2"
    assert records[0]["path"] == str(home / "libsnmalloc.so")
    assert "snmalloc" in json.loads((tmp_path / "versions.json").read_text())


def test_missing_tools_are_named_exactly(builder, monkeypatch):
    monkeypatch.setattr(builder.shutil, "which", lambda tool: None)
    monkeypatch.setattr(builder.os, "geteuid", lambda: 1000)
    with pytest.raises(builder.PeerError, match=r"missing: cargo.*apt-get install .*cargo.*g\+\+"):
        builder.require_tools("cmake")


def test_override_check(builder, build):
    with pytest.raises(builder.PeerError, match="does not run|comes from"):
        builder.check_override(build / "linedist")


@pytest.mark.parametrize("arguments, status", [(["--list"], 0), (["nobody"], 2)])
def test_command_line(tmp_path, arguments, status):
    done = subprocess.run(
        [sys.executable, FOLDER / "build.py", "--cache", tmp_path, *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == status
    assert ("jemalloc" in done.stdout) if status == 0 else ("unknown peer" in done.stderr)
